//! The other clients: programs that do one task and report the result.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::Failure;

/// The result of one check. Without a problem it passed.
#[derive(Deserialize)]
pub(crate) struct Check {
    pub(crate) check: String,
    pub(crate) problem: Option<String>,
}

impl Check {
    /// Returns a check, which failed if there are problems.
    pub(crate) fn of(check: impl Into<String>, problems: &[String]) -> Self {
        let problem = (!problems.is_empty()).then(|| problems.join("; "));
        Self {
            check: check.into(),
            problem,
        }
    }
}

/// The service of all clients.
pub(crate) struct Service {
    pub(crate) endpoint: String,
    pub(crate) connection_string: String,
    pub(crate) account: String,
    pub(crate) key: String,
}

/// A client in another language.
pub(crate) struct Client<'a> {
    pub(crate) name: &'static str,
    program: &'static str,
    script: PathBuf,
    /// The directory of its packages, if it differs from that of the other clients.
    packages: Option<&'static str>,
    service: &'a Service,
    sample: &'a Path,
}

impl<'a> Client<'a> {
    /// The Python and Node clients, for behaviours that only this library's server supports.
    pub(crate) fn of_server(service: &'a Service, sample: &'a Path) -> [Self; 2] {
        Self::both(service, sample).map(|client| {
            let name = client
                .script
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let script = client
                .script
                .with_file_name(name.replace("client", "server"));
            Self { script, ..client }
        })
    }

    /// The Python and Node clients.
    pub(crate) fn both(service: &'a Service, sample: &'a Path) -> [Self; 2] {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../interop");
        [
            ("Python", "python3", "client.py"),
            ("Node", "node", "client.mjs"),
        ]
        .map(|(name, program, script)| Self {
            name,
            program,
            script: directory.join(script),
            packages: None,
            service,
            sample,
        })
    }

    /// The last Python client with client-side encryption.
    pub(crate) fn encryption_v1(service: &'a Service, sample: &'a Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../interop/encryption_v1.py");
        let packages = Some("INTEROP_LEGACY_PACKAGES");
        Self {
            name: "Encryption v1",
            program: "python3",
            script,
            packages,
            service,
            sample,
        }
    }

    /// The last client of Node with callbacks.
    pub(crate) fn azure_storage(service: &'a Service, sample: &'a Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../interop/azure-storage.mjs");
        Self {
            name: "azure-storage",
            program: "node",
            script,
            packages: None,
            service,
            sample,
        }
    }

    /// The service of the client.
    pub(crate) const fn service(&self) -> &'a Service {
        self.service
    }

    /// Runs the program and parses its output, which is JSON.
    pub(crate) fn run<T: DeserializeOwned>(&self, arguments: &[&str]) -> Result<T, Failure> {
        let mut command = Command::new(self.program);
        if let Some(packages) = self.packages {
            command.env(
                "PYTHONPATH",
                std::env::var(packages).map_err(|_| format!("{packages} is not set"))?,
            );
        }
        let output = command
            .arg(&self.script)
            .args(arguments)
            .env("INTEROP_ENDPOINT", &self.service.endpoint)
            .env("INTEROP_ACCOUNT", &self.service.account)
            .env("INTEROP_KEY", &self.service.key)
            .env("INTEROP_CONNECTION", &self.service.connection_string)
            .env("INTEROP_SAMPLE", self.sample)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|e| format!("{} does not start: {e}", self.program))?;
        if !output.status.success() {
            return Err(format!("{} {arguments:?} ended with {}", self.name, output.status).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}
