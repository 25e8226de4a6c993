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
                every_type_is_read_back_with_its_mark
                stored_rows_contain_no_plaintext
                every_write_encrypts
                merges_keep_properties_that_are_not_named
                merges_encrypt_former_plaintext
                groups_mix_all_operations
                groups_fail_as_a_whole
                growth_is_refused_before_it_is_sent
                equal_values_have_different_ciphertexts
            }
            reads {
                projections_are_decrypted
                pages_are_decrypted
                filters_on_encrypted_properties_are_refused
                filters_on_other_properties_work
                keys_are_found_by_their_id
                retries_and_lost_answers_show_no_write_id
            }
            filters {
                filters_that_find_ciphertext_are_refused
                filters_that_find_nothing_are_refused_where_names_are_known
                typed_filters_by_name_are_refused
                filters_can_use_only_listed_names
            }
            marks {
                changed_entities_stay_encrypted
                merges_into_legacy_data_stay_encrypted
                plaintext_of_an_encrypted_name_is_refused
            }
            tamper {
                exchanged_ciphertexts_are_refused
                moved_entities_are_refused
                stripped_properties_are_refused
                stripped_entities_are_refused_where_required
                earlier_properties_are_refused
                plaintext_in_place_of_ciphertext_is_refused
                a_downgrade_is_refused
                every_refusal_has_the_same_text
                an_earlier_whole_entity_is_not_detected
            }
            typed {
                entities_are_read_and_written
                a_store_that_does_not_encrypt_is_refused
                plaintext_in_a_marked_field_is_refused
                projections_and_patches_work
                logs_and_series_are_encrypted
                long_values_are_encrypted_in_parts
                renamed_and_prefixed_properties_stay_encrypted
            }
            indexes {
                copies_are_encrypted_for_their_rows
                unique_blind_indexes_find_by_value
                truncated_blind_indexes_check_again
            }
            wide {
                wide_entities_stay_encrypted
                wide_tables_stay_encrypted
                wide_entities_replaced_without_marks_are_refused
            }
            large {
                marked_fields_are_encrypted_in_their_blobs
                exchanged_blobs_are_refused
                blobs_are_rewritten_under_the_new_key
                plaintext_blobs_are_rewritten_in_a_declared_migration
                blobs_of_rows_in_ciphertext_are_not_collected
                a_damaged_blob_is_reported_and_left
                an_unreadable_row_does_not_stop_the_sweep
            }
            hostile {
                a_row_of_another_key_is_refused
                rows_that_the_query_cannot_match_are_refused
                sweeps_refuse_a_row_of_another_key
            }
            garbage {
                planted_plaintext_is_refused
                planted_plaintext_beside_ciphertext_is_refused
                merges_refuse_planted_plaintext
                declared_plaintext_is_read
                invalid_headers_do_not_stop_sweeps
                rows_of_another_key_with_the_same_id_are_not_counted
            }
            rules {
                rows_of_manifests_and_feeds_are_in_plaintext
                payloads_are_encrypted_in_every_placement (virtual_time)
                reservations_contain_no_plaintext
                copies_are_encrypted_under_their_names
                keys_and_sums_over_rules_are_refused
                keys_and_sums_over_marks_are_refused
                local_entries_have_the_rules_of_their_entity
                rules_by_row_need_a_rule_for_remote_entries
                types_without_the_mark_are_refused
                plaintext_entries_are_migrated
                plaintext_copies_are_scrubbed
                indexes_that_contain_plaintext_can_be_dropped (virtual_time)
                planted_entries_are_refused
            }
            patterns {
                plans_with_encrypted_values_are_refused
                large_values_need_an_encrypting_codec
                rules_by_row_get_the_key_of_the_entity
                types_of_families_and_wide_structs_need_the_mark
            }
            expiry {
                times_that_a_rule_encrypts_are_refused
                encrypted_entities_expire
                a_sweep_without_keys_leaves_what_it_cannot_read
                a_sweep_needs_its_filters
                a_row_that_cannot_be_decrypted_keeps_no_other
            }
            readable {
                pages_list_what_cannot_be_decrypted
            }
            moves {
                plaintext_is_migrated_while_writers_continue
                keys_are_rotated_while_writers_continue
                legacy_data_is_migrated
            }
            concurrency {
                merges_of_different_properties_all_take_effect
                counters_lose_no_update
                groups_with_merges_lose_no_update
            }
        }
    };
}

crate::encryption_behaviours! { define_behaviours }
