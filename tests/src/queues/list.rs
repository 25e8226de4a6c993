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
                a_received_message_is_hidden
                become_visible_again_with_a_higher_count
                are_invisible_until_their_delay_ends
                keep_their_id
                are_not_hidden_by_a_peek
                a_receive_returns_at_most_the_requested_number
                a_receive_can_ask_for_many_messages
                a_renewal_to_zero_makes_a_message_visible
            }
            receipts {
                the_receipt_of_a_send_deletes_the_message
                the_receipt_of_a_send_is_invalid_after_a_receive
                are_invalid_after_another_receive
                are_invalid_after_a_renewal
                are_invalid_after_a_deletion
                a_renewal_extends_the_visibility_timeout
                one_of_several_concurrent_deletes_succeeds
            }
            bodies {
                are_any_text
                are_accepted_up_to_the_limit
                are_refused_over_the_limit
            }
            workers {
                handle_each_message_once
                do_not_receive_messages_of_other_workers
                keep_messages_that_they_renew
            }
            poison {
                a_message_received_too_often_is_set_aside
                other_messages_are_received_as_usual
                a_message_that_is_put_back_is_like_new
                receipts_are_invalid_after_use
                a_deleted_poison_message_is_gone
                a_received_message_is_not_poison
            }
        }
    };
}

crate::queue_behaviours! { define_behaviours }
