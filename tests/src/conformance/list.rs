/// Makes a test of every behaviour for one backend: `conformance_tests!(expression)`.
///
/// The expression, of a type that implements [`Backend`](crate::Backend), is evaluated in every test. The
/// tests are named by module and function, as in `transact::applies_nothing_when_one_fails`; call the
/// macro in a module of its own to run the suite on several backends.
#[macro_export]
macro_rules! conformance_tests {
    ($backend:expr) => {
        $crate::conformance_behaviours! { define_tests $backend }
    };
}

/// Every behaviour of the suite, as the input of a macro of this crate.
///
/// A behaviour without an entry is dead code, which does not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_behaviours {
    ($macro:ident $($backend:expr)?) => {
        $crate::$macro! { conformance $($backend)?;
            tables {
                are_empty_when_created
                are_created_once
                ignore_case_as_the_profile_says
                are_listed_as_created
                lose_their_entities_when_deleted
                are_deleted_alone
                must_exist_to_be_deleted
                are_listed_by_prefix
                are_listed_in_pages
            }
            insert {
                stores_the_entity
                stores_an_entity_without_properties
                refuses_an_existing_entity
                ignores_the_version_and_time_it_is_given
                keeps_partitions_and_tables_apart
                keys_are_case_sensitive
                works_again_after_a_delete
            }
            get {
                answers_none_for_a_missing_entity
                returns_what_is_selected
                always_returns_the_key
                tells_property_names_by_case
                tells_the_time_of_the_last_write
            }
            replace {
                removes_what_it_does_not_name
                refuses_another_version
                replaces_any_version_when_asked
                refuses_a_missing_entity
            }
            merge {
                keeps_what_it_does_not_name
                of_nothing_makes_a_new_version
                refuses_another_version
                merges_into_any_version_when_asked
                refuses_a_missing_entity
            }
            insert_or_replace {
                inserts_a_missing_entity
                replaces_an_existing_entity
                ignores_the_version_it_is_given
            }
            insert_or_merge {
                inserts_a_missing_entity
                merges_into_an_existing_entity
                ignores_the_version_it_is_given
            }
            delete {
                removes_the_entity
                refuses_another_version
                removes_any_version_when_asked
                refuses_a_missing_entity
            }
            etags {
                differ_under_rapid_updates
                differ_under_concurrent_updates
                are_not_reused_after_a_delete
                stay_without_a_write
                are_compared_exactly
                do_not_mean_any_version
                survive_as_text
                are_the_same_wherever_they_are_read
            }
            transact {
                applies_every_kind_of_operation
                answers_in_the_order_of_operations
                applies_nothing_when_one_fails
                tells_why_an_operation_failed
                restores_what_came_before_the_failure
                takes_the_most_operations
                bounds_the_payload
                stays_in_one_partition
                takes_each_entity_once
                refuses_an_empty_group
                checks_every_operation
                leaves_other_partitions_alone
            }
            query {
                point
                row_range
                partition_scan
                partition_range
                table_scan
                either_of_two_points
                order_of_keys
                ranges_in_the_order_of_keys
                prefixes_in_the_order_of_keys
                prefixes_of_any_text
                top
                top_takes_the_first
                select
                returns_what_a_get_returns
                empty_result
            }
            paging {
                see_each_row_once
                are_bounded_by_the_service
                find_the_needle
                keep_filter_and_projection
                are_bound_to_their_query
                can_be_asked_for_again
                survive_concurrent_writes
                survive_the_removal_of_their_start
            }
            filters {
                compare_every_type
                compare_times_by_the_tick
                skip_missing_properties
                combine
                quote_text
                compare_extreme_numbers
                compare_extreme_doubles
                tell_types_apart
                find_both_widths_of_a_typed_integer
                find_whole_numbers_of_a_typed_double
                compare_the_time_of_the_last_write
                agree_with_local_evaluation
                are_bounded_in_comparisons
                are_not_injected
            }
            keys {
                insert_and_get
                replace
                merge
                upsert
                delete
                transact
                query
                errors
                longest
                too_long
                forbidden
            }
            types {
                int32
                int64
                double
                boolean
                datetime
                guid
                binary
                string
                together
            }
            limits {
                properties
                properties_after_a_merge
                property_names
                absurd_property_names
                string_values
                binary_values
                datetime_values
                entity_bytes
                rows_of_binary
                entity_bytes_after_a_merge
                encrypted_properties
            }
            errors {
                tell_a_missing_table_from_a_missing_entity
                name_the_missing_entity
                name_the_entity_in_the_way
                are_not_transient_when_refused
            }
            concurrency {
                no_update_is_lost
                one_insert_wins
                one_conditional_replace_wins
                one_delete_wins
                merges_of_different_properties_all_stay
                groups_keep_the_sum
                overlapping_groups_exclude_each_other
            }
            cancellation {
                of_a_write
                of_a_group
                leaves_the_store_usable
            }
            model {
                agrees_with_random_operations
            }
        }
    };
}

crate::conformance_behaviours! { define_behaviours }
