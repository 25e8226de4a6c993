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
                a_slow_input_is_written_as_it_comes (virtual_time)
                a_slow_table_holds_up_no_other (virtual_time)
                a_conflict_is_one_entitys
                groups_stay_within_the_bytes
                deletes_take_what_they_name
                scans_cover_every_partition
                copies_go_there_and_back
                copies_of_unfinished_writes_are_refused (virtual_time)
                a_delete_that_dies_is_run_again
            }
            bulk_crashes {
                writes_are_run_again
                writes_under_retries_are_done_once
                copies_go_on_where_they_were
            }
            log_blobs {
                records_are_read_by_time
                raw_json_is_one_record
                any_clock_is_read
                writers_share_the_numbers
                cost_what_is_documented
            }
            several_types {
                programs_of_three_types_share_a_table
                handles_of_three_types_share_a_table
                a_group_holds_several_types
            }
            spread {
                rows_of_an_index_are_refused
                hot_partitions_are_named
                one_partition_is_several
                buckets_are_read_at_once
                entities_keep_their_versions
                the_number_of_buckets_changes
            }
            spread_moves {
                readers_and_writers_go_on
                what_is_deleted_stays_deleted (virtual_time)
            }
            large {
                values_outgrow_their_rows
                writers_of_one_entity_keep_it_whole
                orphans_are_collected
                a_table_is_dropped_with_its_blobs
                clocks_are_collected
            }
            large_crashes {
                writes_are_whole_or_not_there
                collections_are_run_again
            }
            declared_bulk {
                groups_hold_entities_with_their_entries
                one_that_fails_is_alone
                an_index_is_built_after_the_load (virtual_time)
            }
            declared_indexes {
                entries_in_the_partition_cost_nothing
                entries_elsewhere_cost_what_is_said
                an_update_moves_entries_and_an_absent_value_has_none
                writes_need_the_version_that_was_read
                a_group_is_all_or_nothing
                unique_values_have_one_owner
                racing_writers_have_one_winner
                writers_that_know_less_keep_every_index
            }
            declared_lookups {
                lookups_take_prefixes_and_ranges
                lookups_are_read_by_pages
                limits_bound_the_references_of_lists
                projections_are_read_from_entries
                who_opens_to_read_sends_nothing_else
                a_stale_entry_is_no_fact
            }
            declared_merges {
                a_merge_leaves_entries_alone
                a_merge_keeps_undeclared_indexes_in_step
            }
            declared_shapes {
                lists_overflow_as_declared
                shards_are_looked_up_by_their_value
            }
            declared_stored {
                entries_follow_what_was_read
                entries_of_unknown_properties_follow
                edits_follow_each_other_without_a_read
                what_lookups_and_queries_read_can_be_replaced
            }
            costs {
                of_logs
                of_series
                of_wide_entities
                of_generations
                of_large_entities
                of_bulk_work
            }
            heterogeneous {
                rows_are_read_as_what_they_are
                rows_are_read_by_closures
                an_entity_is_changed_without_its_type
                an_indexed_table_is_left_alone
            }
            compound {
                rows_of_all_types_are_read_at_once
                sub_ranges_are_typed
                all_rows_are_deleted_together
                neighbours_are_left_alone
                a_delete_that_dies_leaves_all_or_none
            }
            denormalization {
                copies_and_sums_change_with_the_entity
                stay_in_step_through_a_crash
            }
            relationship {
                conventions_lead_to_the_others
                links_lead_to_the_other
                a_join_asks_once_per_key
                one_request_serves_all_who_wait
                what_is_forgotten_is_read_again
                types_share_a_base
            }
            streams {
                queries_hold_a_page
                merged_buckets_hold_two_pages_each
                large_values_are_read_as_they_are_taken
                large_values_are_sent_as_they_come
                bulk_writes_read_as_they_write
                copies_read_a_window_ahead
            }
            time_slice_trouble {
                a_name_in_deletion_is_waited_for
                or_another_generation_is_started
                handles_of_either_choice_agree
                a_drop_that_died_is_run_again
                an_insert_that_died_is_run_again
            }
            time_slices {
                tables_are_made_when_needed
                writes_of_an_index_are_refused
                tables_are_made_once
                a_slice_is_made_again_as_often_as_it_is_dropped
                queries_cross_slices_in_order
                limits_bound_what_is_read
                slices_are_cut_as_the_program_says
                old_slices_are_dropped
                the_future_drops_nothing
                an_entity_stays_in_its_slice
                verbs_find_every_generation
                pages_cross_slices
                what_a_family_cannot_keep_is_refused
            }
            index_lists {
                agree_with_a_model
                cost_what_is_documented
                change_once_for_a_group
                are_built_while_writers_go_on
                are_repaired_by_a_scrub
            }
            index_crashes {
                writes_are_finished_by_workers (virtual_time)
                writes_are_finished_by_a_sweep (virtual_time)
            }
            index_order {
                that_is_missing_is_refused_or_made_by_the_client
                that_is_missing_leaves_nothing_to_merge
                that_is_missing_costs_a_build_no_further_pages (virtual_time)
            }
            index_reads {
                a_stream_reads_what_is_taken
                merged_partitions_share_the_concurrency
            }
            index_scans {
                scans_leave_entries_out
                resolvers_see_no_entries
            }
            index_shapes {
                summaries_agree_with_a_model
                summaries_are_exact_under_many_writers
                summaries_are_built_and_corrected (virtual_time)
                copies_follow_their_source
                shards_are_read_in_order
                shared_keys_are_refused (virtual_time)
                tables_of_entries_serve_one_table
            }
            index_upkeep {
                a_changed_definition_is_another_generation (virtual_time)
                an_index_of_another_program_is_kept_and_dropped (virtual_time)
                an_index_is_rebuilt (virtual_time)
                generations_that_could_collide_are_refused (virtual_time)
                a_scrub_goes_on_from_text (virtual_time)
            }
            upkeep {
                what_programs_leave_is_finished (virtual_time)
                what_it_cannot_keep_it_names (virtual_time)
            }
            queue_crashes {
                sends_are_made_or_not (virtual_time)
                receives_go_on_elsewhere (virtual_time)
                receives_beside_others_go_on_elsewhere (virtual_time)
                receives_under_retries_hand_out_all (virtual_time)
                renewals_keep_the_message (virtual_time)
                deletes_are_made_or_not (virtual_time)
                what_is_put_back_is_there_once (virtual_time)
            }
            log_tail {
                the_newest_come_first
                entries_of_an_index_are_refused
                older_pages_follow_a_cursor
                are_read_since_a_moment
                appends_in_one_tick_are_all_kept
                rows_of_other_programs_are_entries
                logs_share_a_partition
                a_repeated_append_is_stored_once
                are_refused_without_order_unless_sorted_here
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
                rows_of_an_index_are_refused
                of_a_day_is_one_entity
                of_a_year_goes_on_in_the_next_row
                slots_are_updated_at_once
                counters_lose_no_update
                a_slot_is_cleared
                values_are_small_structs
                rows_never_grow_too_large
                a_thousand_rows_and_one_keep_every_slot
                slots_per_row_fit_a_row
                what_dies_is_done_or_not
            }
            series_values {
                of_a_set_that_grows_keep_all
                values_are_booleans_and_times
            }
            verbs {
                inserts_add_what_is_not_there
                upserts_replace_what_is_there
                merging_upserts_keep_the_rest
                replacements_are_bound_to_a_version
                what_was_read_is_not_read_again
                merges_keep_the_rest
                updates_keep_what_they_do_not_know
                updates_that_lose_are_made_again
                deletes_are_bound_to_a_version
                reads_tell_what_is_missing
                moves_take_the_whole_entity
                limits_end_queries_and_bound_pages
            }
            wide {
                rows_of_an_index_are_refused
                are_written_and_read_in_one_request
                errors_name_the_entity
                a_property_is_set_in_its_row
                grow_and_shrink
                are_refused_past_a_group
                torn_reads_are_never_answered
                damage_is_an_error
                agree_with_a_map
                survive_a_crash_at_every_request
            }
            wide_structs {
                are_read_and_written_whole
            }
        }
    };
}

crate::pattern_behaviours! { define_behaviours }
