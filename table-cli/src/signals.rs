//! Signals that end a command.

/// Waits for Ctrl-C, and for SIGTERM of a service manager.
pub(crate) async fn stopped() {
    #[cfg(unix)]
    // From the first call on, the runtime handles these signals instead of the system: they no longer end the process by themselves, so
    // every command that calls this must end when it returns.
    if let Ok(mut terminated) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        return;
    }
    let _ = tokio::signal::ctrl_c().await;
}
