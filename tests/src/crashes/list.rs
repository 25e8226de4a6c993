/// Makes a test of every behaviour of crashed processes for one backend: `crash_tests!(expression)`.
///
/// The expression, of a type that implements [`Backend`](crate::Backend), is evaluated in every test.
#[macro_export]
macro_rules! crash_tests {
    ($backend:expr) => {
        $crate::crash_behaviours! { define_tests $backend }
    };
}

/// Every behaviour of the suite, as the input of a macro of this crate.
///
/// A behaviour without an entry is dead code, which does not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! crash_behaviours {
    ($macro:ident $($backend:expr)?) => {
        $crate::$macro! { crashes $($backend)?;
            bulk {
                crashed_writes_can_be_repeated
                retried_writes_take_effect_once
                crashed_copies_continue_at_their_progress
            }
            large {
                crashed_writes_are_complete_or_absent
                crashed_collections_can_be_repeated
            }
            index {
                writes_are_finished_by_workers (virtual_time)
                writes_are_finished_by_a_sweep (virtual_time)
            }
            queue {
                an_acknowledged_message_is_sent_once (virtual_time)
                messages_of_a_crashed_receive_become_visible (virtual_time)
                messages_of_concurrent_receives_become_visible (virtual_time)
                retried_receives_return_all_messages (virtual_time)
                a_renewed_message_exists_once (virtual_time)
                an_acknowledged_deletion_is_final (virtual_time)
                a_message_that_is_put_back_exists_once (virtual_time)
            }
        }
    };
}

crate::crash_behaviours! { define_behaviours }
