/// Makes a test of every behaviour of encrypted properties for one backend: `encryption_tests!(expression)`.
///
/// The expression, of a type that implements [`Backend`](crate::Backend), is evaluated in every test.
#[macro_export]
macro_rules! encryption_tests {
    ($backend:expr) => {
        $crate::encryption_behaviours! { define_tests $backend }
    };
}

/// Every behaviour of the suite, as the input of a macro of this crate.
///
/// A behaviour without an entry is dead code, which does not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! encryption_behaviours {
    ($macro:ident $($backend:expr)?) => {
        $crate::$macro! { encryption $($backend)?;
            operations {
                every_type_returns_marked
                plaintext_is_nowhere
                every_write_encrypts
                merges_keep_what_they_do_not_name
                merges_encrypt_what_was_plaintext
                groups_mix_all_operations
                groups_refuse_as_a_whole
                growth_is_refused_before_it_is_sent
                the_same_value_never_looks_the_same
            }
            reads {
                projections_bring_what_they_need
                pages_are_decrypted
                filters_on_encrypted_properties_are_refused
                filters_on_others_work
                keys_are_found_by_their_id
                retries_and_lost_answers_are_survived
            }
            filters {
                filters_that_find_ciphertext_are_refused
                filters_that_find_nothing_are_refused_where_names_are_known
                typed_filters_by_name_are_refused
                filters_compare_what_is_listed_and_nothing_else
            }
            marks {
                changed_entities_stay_encrypted
                merges_into_legacy_data_stay_encrypted
                plaintext_of_what_is_encrypted_is_refused
            }
            tamper {
                exchanged_ciphertexts_are_refused
                moved_entities_are_refused
                stripped_properties_are_refused
                stripped_entities_are_refused_where_required
                older_properties_are_refused
                plaintext_in_place_of_ciphertext_is_refused
                a_downgrade_is_refused
                every_refusal_reads_the_same
                an_older_whole_entity_is_not_noticed
            }
            typed {
                entities_are_read_and_written
                a_store_that_does_not_encrypt_is_refused
                plaintext_in_a_marked_field_is_refused
                projections_and_patches_work
                logs_and_series_are_encrypted
            }
            indexes {
                copies_are_encrypted_for_their_rows
                unique_blind_indexes_find_by_value
                truncated_blind_indexes_check_again
            }
            wide {
                wide_entities_stay_encrypted
                wide_tables_stay_encrypted
                wide_entities_built_anew_in_plaintext_are_refused
            }
            large {
                marked_fields_are_encrypted_in_their_blobs
                exchanged_blobs_are_refused
                blobs_are_rewritten_under_the_new_key
                plaintext_blobs_are_rewritten_where_they_are_expected
                blobs_of_rows_in_ciphertext_are_not_collected
                a_damaged_blob_is_told_and_left
                a_garbage_row_keeps_no_blob_back
            }
            hostile {
                another_entity_is_refused
                pages_of_others_are_refused
                sweeps_are_not_misled
            }
            garbage {
                planted_plaintext_is_refused
                what_is_left_of_an_entity_is_refused
                planted_plaintext_is_not_laundered
                declared_plaintext_is_read
                garbage_blocks_nothing
                keys_are_verified_and_counted
            }
            rules {
                payloads_are_encrypted_wherever_entries_go (virtual_time)
                reservations_show_nothing
                copies_are_encrypted_under_their_names
                keys_and_sums_over_rules_are_refused
                keys_and_sums_over_marks_are_refused
                rules_by_row_go_with_the_entity
                rules_by_row_need_one_for_the_entries
                types_without_the_mark_are_refused
                entries_of_plaintext_times_are_migrated
                copies_of_plaintext_times_are_scrubbed
                indexes_that_would_show_are_dropped (virtual_time)
                planted_entries_are_refused
            }
            patterns {
                plans_do_not_show_what_rules_encrypt
                large_values_need_a_codec_that_encrypts
                rules_by_row_know_the_entity
                types_of_families_and_rows_need_the_mark
            }
            moves {
                plaintext_is_migrated_while_writers_go_on
                keys_are_rotated_while_writers_go_on
                legacy_data_becomes_v2
            }
            concurrency {
                merges_of_different_properties_all_stay
                counters_lose_no_update
                groups_with_merges_lose_no_update
            }
        }
    };
}

crate::encryption_behaviours! { define_behaviours }
