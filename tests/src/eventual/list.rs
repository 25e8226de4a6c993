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
                is_filled_by_a_worker
                is_filled_by_the_submitter
                is_left_alone_where_nobody_is
                gets_every_change_made_meanwhile
            }
            steps {
                are_done_in_their_order
                replace_only_what_exists
                move_under_another_key
                write_and_remove_blobs
                call_handlers
            }
            plans {
                larger_than_a_message_are_stored_until_done
                larger_than_a_message_are_done_by_the_submitter
                fit_a_message_to_the_byte
                that_cannot_be_done_are_refused
                submitted_twice_are_done_once
            }
            workers {
                share_the_transactions
                go_on_at_the_step_that_failed
                tell_what_they_do
            }
            poison {
                shows_where_and_why_it_failed
                goes_on_when_put_back
                is_never_done_once_discarded
            }
        }
    };
}

crate::eventual_behaviours! { define_behaviours }
