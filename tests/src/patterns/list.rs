/// Makes a test of every behaviour of every pattern for one backend: `pattern_tests!(expression)`.
///
/// The expression, of a type that implements [`Backend`](crate::Backend), is evaluated in every test.
#[macro_export]
macro_rules! pattern_tests {
    ($backend:expr) => {
        $crate::pattern_behaviours! { define_tests $backend }
    };
}

/// Every behaviour of the suite, as the input of a macro of this crate.
///
/// A behaviour without an entry is dead code, which does not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! pattern_behaviours {
    ($macro:ident $($backend:expr)?) => {
        $crate::$macro! { patterns $($backend)?;
            bulk {
                everything_is_written
                an_endless_input_is_written_as_it_arrives (virtual_time)
                a_slow_table_delays_no_other_table (virtual_time)
                a_conflict_affects_one_entity
                groups_stay_within_the_byte_limit
                rows_of_a_key_are_written_in_their_order
                a_deletion_removes_only_matching_entities
                scans_cover_every_partition
                copies_to_another_store_and_back_are_equal
                copies_of_unfinished_writes_are_refused (virtual_time)
                a_crashed_deletion_can_be_repeated
            }
            forms {
                every_form_is_stored_and_found
                a_row_of_an_earlier_program_is_read_and_rewritten
                indexes_of_days_and_enums_are_in_step
                errors_of_groups_name_the_operation
                the_wire_and_serde_agree
            }
            log_blobs {
                records_are_read_by_time
                json_with_line_breaks_is_one_record
                records_are_found_whatever_the_writers_clock
                concurrent_writers_overwrite_no_blob
                requests_are_as_documented
            }
            expiry {
                reads_leave_out_what_has_expired
                inserts_replace_expired_entities_in_previous_buckets
                merges_do_not_revive_what_has_expired
                deleted_entities_are_restored_or_removed
                sweeps_remove_everything_of_expired_entities
                a_sweep_without_blobs_leaves_their_entities
                lookups_leave_out_what_has_expired
                a_sweep_leaves_what_is_renewed (virtual_time)
                a_sweep_can_fail_at_any_request (virtual_time)
                requests_are_as_documented
                expired_slices_are_dropped
                sets_and_pages_leave_out_what_has_expired
                groups_treat_hidden_entities_as_single_writes_do
                groups_register_types_without_indexes
                pages_both_ways_leave_out_what_has_expired
            }
            expiry_claims {
                claimants_remove_expired_owners
                claimants_remove_the_blobs_of_owners
                a_claim_and_a_renewal_exclude_each_other (virtual_time)
                one_of_two_claimants_gets_the_value (virtual_time)
                a_claim_can_fail_at_any_request (virtual_time)
            }
            expiry_index {
                a_sweep_finds_entities_by_their_times
            }
            expiry_versions {
                programs_agree_about_expiry
                entities_of_later_versions_are_not_claimed
                migrations_convert_hidden_entities
            }
            feed {
                concurrent_writers_are_numbered_without_gaps
                changes_agree_with_writes_after_faults
                planted_rows_end_the_delivery_before_them
                every_way_to_write_is_in_the_feed
            }
            pages {
                every_query_has_pages_both_ways
            }
            readable {
                pages_list_what_cannot_be_read
                missing_blobs_are_listed
                damaged_wide_entities_are_listed
            }
            sets {
                sets_write_every_entity_of_a_query
                sets_lose_no_change_of_another_writer
                bulk_inserts_use_the_write_path_of_the_handle
                bulk_inserts_keep_the_order_of_a_key
                a_store_is_copied_with_its_manifests
                a_store_is_copied_with_its_blobs
                entries_and_unique_values_follow
                crashed_sets_can_be_repeated (virtual_time)
            }
            several_types {
                programs_of_three_types_share_a_table
                handles_of_three_types_share_a_table
                a_group_holds_several_types
            }
            spread {
                writes_are_refused_over_an_index_of_any_type
                the_watch_reports_hot_partitions
                a_logical_partition_has_several_buckets
                buckets_are_read_concurrently
                versions_work_as_in_plain_tables
                the_number_of_buckets_changes
            }
            spread_moves {
                a_migration_moves_rows_under_readers_and_writers
                a_deleted_row_does_not_return_after_a_crashed_migration (virtual_time)
            }
            large {
                values_of_every_size_are_stored
                concurrent_writers_never_mix_an_entity
                orphans_are_collected
                a_dropped_table_loses_its_blobs
                clock_blobs_of_crashed_collections_are_collected
            }
            declared_bulk {
                groups_hold_entities_with_their_entries
                a_failed_entity_does_not_affect_others
                an_absent_index_is_built_after_the_load (virtual_time)
                entities_of_a_key_are_written_in_their_order
            }
            declared_indexes {
                local_entries_cost_no_further_request
                remote_entries_cost_the_documented_requests
                an_update_moves_entries_and_an_absent_value_has_none
                a_replacement_needs_the_version_that_was_read
                a_group_commits_with_all_its_entries
                a_write_with_a_taken_unique_value_is_refused
                one_of_several_concurrent_writers_gets_a_unique_value
                writers_keep_undeclared_indexes_in_step
            }
            declared_lookups {
                lookups_select_by_prefixes_and_ranges
                lookups_return_pages
                a_limit_bounds_the_references_of_lists
                projections_are_read_from_entries
                a_reader_writes_nothing
                a_lookup_leaves_stale_entries_out
            }
            declared_shapes {
                lists_overflow_as_declared
                shards_are_looked_up_by_their_value
            }
            declared_writes {
                the_stored_value_decides_which_entries_are_removed
                entries_of_undeclared_properties_follow_the_entity
                several_edits_need_one_read
                stored_values_of_lookups_and_queries_can_be_replaced
                a_merge_without_indexed_values_reads_no_entries
                a_merge_keeps_undeclared_indexes_in_step
            }
            explain {
                typed_queries_name_the_index_that_has_their_results
                the_named_lookup_has_the_results_at_the_named_cost
                dynamic_queries_name_the_index_that_has_their_results
            }
            costs {
                requests_of_logs
                requests_of_series
                requests_of_wide_entities
                requests_of_generations
                requests_of_large_entities
                requests_of_bulk_work
            }
            heterogeneous {
                rows_of_every_type_are_read_by_one_query
                rows_are_read_by_closures
                an_entity_is_changed_without_its_type
                a_change_without_the_type_is_refused_in_an_indexed_table
                rows_whose_keys_begin_alike_are_told_apart
            }
            compound {
                one_request_reads_rows_of_all_types
                one_request_reads_a_range_of_one_type
                all_rows_are_deleted_together
                a_prefix_that_other_keys_continue_is_refused
                a_crashed_deletion_leaves_all_rows_or_none
            }
            denormalization {
                copies_and_sums_change_in_the_entitys_group
                copies_and_sums_are_in_step_after_a_crash
            }
            refusals {
                calls_are_refused_by_kind
                a_declaration_is_refused_by_kind
                a_write_against_the_manifest_is_refused_by_kind
                an_unready_index_is_refused_by_kind
                a_state_is_refused_by_kind
                a_limit_of_entries_says_how_much_is_allowed
                a_taken_value_names_its_owner_on_request
            }
            relationship {
                related_entities_are_found_by_conventions
                links_are_stored_and_followed
                a_join_reads_each_key_once
                concurrent_reads_of_one_key_send_one_request
                a_cleared_key_is_read_again
                types_with_a_common_base_are_one_enum
            }
            split {
                every_handle_reads_and_shortens_long_values
                an_entry_has_every_part
                wide_values_are_in_several_rows
                damaged_and_excessive_values_are_errors_of_one_row
            }
            streams {
                queries_hold_one_page_per_range
                merged_buckets_hold_two_pages_each
                large_values_are_read_on_demand
                streamed_large_values_are_sent_in_parts
                bulk_writes_hold_a_bounded_number_of_operations
                copies_read_one_window_ahead
            }
            summaries {
                typed_summaries_follow_every_write (virtual_time)
                mistakes_in_summaries_are_errors
            }
            time_slice_recovery {
                an_insert_waits_while_a_name_is_being_deleted
                an_insert_creates_a_generation_while_a_name_is_being_deleted
                handles_with_either_option_share_generations
                a_crashed_drop_can_be_repeated
                a_crashed_insert_can_be_repeated
            }
            time_slices {
                an_insert_creates_its_table
                writes_are_refused_over_an_index_of_any_type
                concurrent_inserts_create_each_table_once
                an_insert_creates_a_dropped_table_again
                queries_cross_slices_in_order
                a_limit_reads_only_the_slices_it_needs
                slices_are_intervals_of_the_program
                old_slices_are_dropped
                future_slices_are_neither_counted_nor_dropped
                an_entity_stays_in_its_slice
                verbs_find_entities_in_every_generation
                pages_cross_slices
                a_type_that_a_family_cannot_store_is_refused
            }
            index_lists {
                lists_agree_with_a_model
                lookups_cost_the_documented_requests
                a_group_changes_each_list_once
                lists_are_built_while_writers_continue (virtual_time)
                a_scrub_repairs_lists
                a_scrub_repairs_a_list_that_changes
            }
            index_order {
                a_limit_on_an_unsorted_store_is_refused_or_sorted_on_the_client
                unsorted_partitions_cannot_be_merged
                a_build_on_an_unsorted_store_reads_each_window_twice (virtual_time)
            }
            index_reads {
                a_stream_reads_only_the_taken_pages
                merged_partitions_share_the_concurrency_limit
                a_planted_entry_is_not_shown_as_its_entity
            }
            index_scans {
                scans_leave_entries_out
                resolvers_see_no_entries
            }
            index_shapes {
                summaries_agree_with_a_model
                summaries_are_exact_under_concurrent_writers
                summaries_are_built_and_corrected (virtual_time)
                copies_follow_their_source
                shards_are_read_in_order
                two_entities_with_one_entry_key_are_refused (virtual_time)
                tables_share_a_table_of_entries (virtual_time)
            }
            planted {
                a_planted_definition_changes_no_other_table (virtual_time)
                a_row_in_the_way_leaves_no_unfinished_write (virtual_time)
                an_entry_changes_only_its_own_row (virtual_time)
                a_damaged_manifest_stops_no_read_and_no_write
            }
            index_upkeep {
                a_changed_definition_is_a_new_generation (virtual_time)
                an_index_of_another_program_is_kept_in_step_and_dropped (virtual_time)
                a_rebuild_removes_wrong_entries (virtual_time)
                generations_with_equal_keys_are_refused (virtual_time)
                a_scrub_continues_from_its_cursor (virtual_time)
            }
            upkeep {
                unfinished_work_of_crashed_programs_is_finished_once (virtual_time)
                opaque_indexes_are_reported_by_name (virtual_time)
            }
            log_tail {
                entries_are_newest_first
                appends_are_refused_over_an_index_of_any_type
                pages_continue_after_an_entry
                entries_are_read_since_a_moment
                appends_within_one_tick_are_all_stored
                rows_of_other_programs_are_entries
                logs_share_a_partition
                a_repeated_append_is_stored_once
                an_unsorted_store_is_refused_unless_the_client_sorts
            }
            migrations {
                every_handle_plans_and_resumes_an_upgrade
                wide_entities_are_upgraded_page_by_page
                a_row_that_cannot_be_converted_stops_no_other
            }
            models_in_time {
                a_log_is_a_sorted_list
                slices_are_a_set_ordered_by_month
                a_series_is_a_map
            }
            models_by_key {
                compound_rows_are_a_set
                a_join_is_a_map_of_what_was_read
                lookups_are_searches_of_a_map
            }
            series {
                writes_are_refused_over_an_index_of_any_type
                a_day_is_one_entity
                a_year_continues_in_a_second_row
                slots_are_updated_concurrently
                counters_lose_no_update
                a_slot_is_cleared
                values_are_small_structs
                rows_stay_within_the_limits
                more_than_a_thousand_rows_keep_every_slot
                the_slots_of_a_row_fit_its_properties
                a_deletion_with_a_lost_answer_is_ambiguous
                a_crashed_write_takes_effect_or_not
                a_growing_set_of_slots_keeps_its_values
                values_are_booleans_and_times
            }
            verbs {
                insert_refuses_an_existing_entity
                upsert_replaces_all_properties
                insert_or_merge_keeps_other_properties
                replace_needs_the_version_that_was_read
                replace_stored_and_delete_stored_read_nothing
                merge_keeps_other_properties
                update_keeps_undeclared_properties
                update_tries_again_after_a_conflict
                delete_needs_a_version_or_any
                get_returns_none_and_get_existing_an_error
                move_to_moves_the_whole_entity
                a_move_of_a_deleted_entity_leaves_no_copy
                limits_end_queries_and_bound_pages
            }
            wide {
                writes_are_refused_over_an_index_of_any_type
                one_request_writes_and_one_reads_an_entity
                conflicts_name_the_entity
                a_change_of_one_property_writes_its_row
                rows_follow_the_size_of_the_entity
                entities_larger_than_a_group_are_refused
                readers_never_see_two_writes_mixed
                rows_that_do_not_belong_together_are_an_error
                entities_agree_with_a_map
                a_crashed_write_takes_effect_or_not
                structs_are_read_and_written_whole
            }
        }
    };
}

crate::pattern_behaviours! { define_behaviours }
