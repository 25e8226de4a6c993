//! Bodies: any text up to the limit, unchanged.

use std::time::Duration;

use table_core::queue::MESSAGE_BYTES;

use super::{Queue, assert_nothing_is_visible, only, receipt, send, take};

/// Peek and receive return the body unchanged, whatever its text.
pub(crate) async fn are_any_text(queue: Queue) {
    for body in [
        "",
        " ",
        " \t\r\n one\r\ntwo\rthree \n",
        "it's \"quoted\" \\ %2F+&=",
        "<x attr='1'>&amp;&#13;]]></x><!-- -->",
        "\u{0}\u{1}\u{b}\u{1f}\u{7f}\u{85}\u{2028}",
        "\u{feff}\u{fffe}\u{ffff}\u{fffd}",
        "\u{1F600}\u{1F468}\u{200D}\u{1F469} e\u{301} \u{e9}",
        "dGV4dA==",
    ] {
        assert_comes_through(&queue, body).await;
    }
}

/// The limit counts bytes of UTF-8, whatever encoding the service uses.
pub(crate) async fn are_accepted_up_to_the_limit(queue: Queue) {
    for text in ["x", "<", "\n", "\u{0}", "\u{e9}", "\u{1F600}"] {
        assert_comes_through(&queue, &text.repeat(MESSAGE_BYTES / text.len())).await;
    }
}

/// A body with one byte too many is refused, and nothing is sent.
pub(crate) async fn are_refused_over_the_limit(queue: Queue) {
    for over in [
        "x".repeat(MESSAGE_BYTES + 1),
        "\u{e9}".repeat(MESSAGE_BYTES / 2) + "x",
    ] {
        let error = queue
            .send(&over, Duration::ZERO)
            .await
            .expect_err("it is too long");
        assert!(error.is_limit_exceeded(), "{error}");
        assert!(!error.is_ambiguous(), "{error}");
    }
    assert_nothing_is_visible(&queue).await;
}

async fn assert_comes_through(queue: &Queue, body: &str) {
    send(queue, body).await;
    let seen = only(queue.peek(9).await.expect("messages"));
    let taken = take(queue).await;
    let start: String = body.chars().take(20).collect();
    assert_eq!(seen.body, body, "{start:?} became {:.40?}", taken.body);
    assert_eq!(taken.body, body, "{start:?} became {:.40?}", taken.body);
    queue
        .delete(&receipt(&taken))
        .await
        .expect("the receipt is valid");
}
