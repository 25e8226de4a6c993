/// Makes a test of every behaviour of a work queue: `queue_tests!(expression)`.
///
/// The expression, of a type that implements [`QueueBackend`](crate::queues::QueueBackend), is evaluated
/// in every test.
#[macro_export]
macro_rules! queue_tests {
    ($backend:expr) => {
        $crate::queue_behaviours! { define_tests $backend }
    };
}

/// Every behaviour of the suite, as the input of a macro of this crate.
///
/// A behaviour without an entry is dead code, which does not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! queue_behaviours {
    ($macro:ident $($backend:expr)?) => {
        $crate::$macro! { queues $($backend)?;
            messages {
                are_received_and_deleted
                are_hidden_while_they_are_worked_on
                come_back_with_a_higher_count
                wait_for_their_delay
                keep_their_identity
                are_not_taken_by_a_peek
                are_no_more_than_asked_for
                may_be_asked_for_in_plenty
                can_be_given_back
            }
            receipts {
                let_the_sender_take_a_message_back
                of_the_sender_are_void_once_received
                are_void_once_another_received
                are_void_once_renewed
                are_void_once_deleted
                hide_the_message_on_when_renewed
                delete_once
            }
            bodies {
                are_any_text
                are_taken_up_to_the_limit
                are_refused_over_the_limit
            }
            workers {
                share_the_messages
                do_not_get_what_others_hold
                keep_what_they_renew
            }
            poison {
                is_set_aside_when_it_comes_back_too_often
                does_not_hold_up_others
                can_be_put_back
                receipts_are_void_once_used
                can_be_deleted
                is_not_what_is_worked_on
            }
        }
    };
}

crate::queue_behaviours! { define_behaviours }
