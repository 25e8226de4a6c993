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
                a_new_table_is_empty
                a_second_table_of_the_same_name_is_refused
                names_ignore_case_if_the_profile_says_so
                listings_keep_the_case_of_names
                a_deleted_table_loses_its_entities
                a_deletion_leaves_other_tables
                a_missing_table_cannot_be_deleted
                a_prefix_selects_tables
                a_long_listing_has_pages
            }
            insert {
                stores_the_entity
                stores_an_entity_without_properties
                refuses_an_existing_entity
                ignores_the_etag_and_time_of_the_sent_entity
                separates_partitions_and_tables
                keys_are_case_sensitive
                succeeds_after_a_delete
            }
            get {
                returns_none_for_a_missing_entity
                returns_the_selected_properties
                always_returns_the_key
                property_names_are_case_sensitive
                returns_the_time_of_the_last_write
            }
            replace {
                removes_properties_that_are_not_named
                refuses_an_outdated_version
                replaces_any_version_on_request
                refuses_a_missing_entity
            }
            merge {
                keeps_properties_that_are_not_named
                without_properties_makes_a_new_etag
                refuses_an_outdated_version
                merges_into_any_version_on_request
                refuses_a_missing_entity
            }
            insert_or_replace {
                inserts_a_missing_entity
                replaces_an_existing_entity
                ignores_the_etag_of_the_sent_entity
            }
            insert_or_merge {
                inserts_a_missing_entity
                merges_into_an_existing_entity
                ignores_the_etag_of_the_sent_entity
            }
            delete {
                removes_the_entity
                refuses_an_outdated_version
                removes_any_version_on_request
                refuses_a_missing_entity
            }
            etags {
                differ_under_rapid_updates
                differ_under_concurrent_updates
                are_not_reused_after_a_delete
                do_not_change_without_a_write
                are_compared_exactly
                an_asterisk_is_not_any_version
                malformed_texts_are_refused
                can_be_printed_and_parsed
                are_equal_in_every_answer
            }
            transact {
                applies_every_kind_of_operation
                returns_etags_in_the_order_of_operations
                applies_nothing_when_one_fails
                names_the_error_of_the_failed_operation
                undoes_the_operations_before_the_failure
                accepts_the_maximum_number_of_operations
                limits_the_payload
                refuses_a_second_partition
                refuses_a_second_operation_on_one_entity
                refuses_an_empty_group
                checks_the_limits_of_every_operation
                leaves_other_partitions_alone
            }
            query {
                point_query
                range_of_rows
                partition_scan
                range_of_partitions
                table_scan
                either_of_two_points
                order_of_keys
                ranges_in_the_order_of_keys
                prefixes_in_the_order_of_keys
                prefixes_of_any_text
                top_limits_pages_and_streams
                top_returns_the_first_entities_of_a_partition
                projections
                projection_of_everything
                returns_the_same_entities_as_a_get
                empty_result
            }
            paging {
                pages_of_any_size_return_each_row_once
                pages_have_at_most_the_size_of_the_service
                a_filter_finds_its_match_across_empty_pages
                the_next_page_keeps_filter_and_projection
                a_continuation_belongs_to_its_query
                a_page_can_be_read_twice
                concurrent_writes_do_not_hide_or_repeat_rows
                the_first_row_of_the_next_page_can_be_deleted
            }
            filters {
                compare_every_type
                compare_times_by_100_ns
                do_not_match_missing_properties
                combine_with_and_or_not
                text_literals_are_quoted
                compare_extreme_numbers
                compare_extreme_doubles
                a_literal_of_another_type_does_not_match
                find_both_integer_widths
                find_whole_numbers_in_a_double_property
                compare_the_time_of_the_last_write
                random_filters_agree_with_local_evaluation
                have_a_maximum_number_of_comparisons
                text_with_filter_syntax_is_a_value
            }
            keys {
                insert_and_get
                replace
                merge
                both_upserts
                delete
                transact
                query
                errors_contain_the_key
                keys_of_the_maximum_length
                longer_keys_are_refused
                forbidden_characters_are_refused
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
                all_types_in_one_entity
            }
            limits {
                number_of_properties
                number_of_properties_after_a_merge
                property_names
                property_names_occur_once
                very_long_property_names
                string_values
                binary_values
                datetime_values
                entity_bytes
                entities_of_binary
                entity_bytes_after_a_merge
                marked_properties_are_refused_without_encryption
            }
            errors {
                distinguish_a_missing_table_from_a_missing_entity
                name_the_missing_entity
                name_the_existing_entity
                of_refused_operations_are_not_transient
            }
            concurrency {
                no_update_is_lost
                one_insert_wins
                one_conditional_replace_wins
                one_delete_wins
                merges_of_different_properties_all_take_effect
                groups_keep_the_sum
                overlapping_groups_exclude_each_other
            }
            cancellation {
                a_dropped_write_is_complete_or_absent
                a_dropped_group_is_complete_or_absent
                the_store_works_after_dropped_writes
            }
            model {
                agrees_with_random_operations
            }
        }
    };
}

crate::conformance_behaviours! { define_behaviours }
