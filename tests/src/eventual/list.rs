/// Makes a test of every behaviour of eventually consistent transactions: `eventual_tests!(expression)`.
///
/// The expression, of a type that implements [`EventualBackend`](crate::eventual::EventualBackend), is
/// evaluated in every test.
#[macro_export]
macro_rules! eventual_tests {
    ($backend:expr) => {
        $crate::eventual_behaviours! { define_tests $backend }
    };
}

/// Every behaviour of the suite, as the input of a macro of this crate.
///
/// A behaviour without an entry is dead code, which does not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! eventual_behaviours {
    ($macro:ident $($backend:expr)?) => {
        $crate::$macro! { eventual $($backend)?;
            archive {
                a_worker_carries_out_the_move
                the_submitter_carries_out_the_move
                a_move_of_a_missing_entity_is_refused
                a_move_includes_concurrent_changes
            }
            steps {
                are_carried_out_in_order
                together_are_carried_out_before_the_next
                replace_only_existing_entities
                move_to_another_key
                write_and_remove_blobs
                call_handlers
            }
            plans {
                larger_than_a_message_are_stored_until_finished
                larger_than_a_message_are_carried_out_by_the_submitter
                fit_a_message_to_the_byte
                that_cannot_succeed_are_refused
                submitted_twice_are_carried_out_once
            }
            workers {
                share_the_transactions
                continue_at_the_failed_step
                report_events_to_listeners
            }
            poison {
                shows_its_progress_and_error
                continues_when_put_back
                is_never_continued_after_a_discard
            }
        }
    };
}

crate::eventual_behaviours! { define_behaviours }
