//! `tables serve`.

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use table_core::adapter::StoreBuilder;
use table_server::{
    Account, Certificate, EMULATOR_ACCOUNT, EMULATOR_KEY, Limits, SelfSigned, Server, ServerBuilder,
};
use tracing_subscriber::filter::LevelFilter;

use crate::failure::{Failure, Result};
use crate::faults::Faults;
use crate::output::{log_output, print, remark};
use crate::pace::stopped;
use crate::store::{Access, FileOptions, OpenStore, StoreName};

/// Files that the process opens besides connections: the store, the log, the runtime.
#[cfg(unix)]
const OTHER_FILES: usize = 64;

/// The names of the files of a self-signed certificate.
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// The arguments of `tables serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The store
    store: StoreName,
    /// The address and the port; port 0 chooses a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10002")]
    listen: SocketAddr,
    /// The host name by which clients reach the server, for connection strings and for the self-signed certificate. The emulator's
    /// account answers to this name and to names of this machine, such as localhost
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// An account and the place of its key in base64; twice with one name for two valid keys. Each of several accounts has a store of
    /// its own: a folder with its name below the directory of an embedded store. Without accounts, the emulator's account is served, on
    /// loopback addresses only
    #[arg(long = "account", value_name = "NAME:env:VARIABLE|NAME:file:PATH")]
    accounts: Vec<String>,
    /// Print the connection strings with the keys, not only the key of the emulator's account
    #[arg(long)]
    show_keys: bool,
    /// Serve HTTPS only, with a certificate chain and its key, both files in PEM
    #[arg(long, num_args = 2, value_names = ["CERTIFICATE", "KEY"], conflicts_with = "self_signed")]
    https: Option<Vec<PathBuf>>,
    /// Serve HTTPS only, with the certificate in this directory, which is made if it is missing; clients must be configured to
    /// trust certificate.pem
    #[arg(long, value_name = "DIR")]
    self_signed: Option<PathBuf>,
    /// How many clients may be connected at once; further ones wait
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().connections)]
    connections: usize,
    /// Memory for the pages of an embedded store, in MiB; 256 without this. A store whose often used pages fit answers from memory
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    cache: Option<u32>,
    /// The size up to which the file of an embedded store is read whole after a crash, in MiB; 512 without this. In a larger file,
    /// each commit is synced twice, so that the store opens in milliseconds
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(0..))]
    scan_up_to: Option<u32>,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Serve counts of requests at /_metrics for Prometheus, to every client
    #[arg(long)]
    metrics: bool,
    /// Serve a page at /_explorer that shows all tables to browsers of this machine, without a key
    #[arg(long)]
    explorer: bool,
    /// Write a log to standard error; info has a line for each request
    #[arg(long, value_name = "LEVEL", default_value = "warn", value_parser = ["off", "error", "warn", "info", "debug"])]
    log: String,
    /// Inject faults, for tests of clients: NAME=PROBABILITY,…
    #[arg(long = "fault", value_name = "FAULTS")]
    faults: Option<Faults>,
    /// The seed of the faults: the same requests in the same order get the same faults
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "faults")]
    fault_seed: u64,
    /// Also stop at the end of standard input, for a server that a test starts
    #[arg(long)]
    until_eof: bool,
}

impl ServeArgs {
    /// Serves until a signal, then answers the requests in progress and closes the store. Prints a connection string for each
    /// account, a line each.
    pub(crate) async fn run(&self) -> Result<()> {
        start_log(&self.log);
        let accounts = accounts(&self.accounts)?;
        let mut limits = Limits::default();
        limits.connections = self.connections();
        let mut builder = Server::builder().listen(self.listen).limits(limits);
        if let Some(host) = &self.host {
            builder = builder.host(host);
        }
        if self.read_only {
            builder = builder.read_only();
        }
        if self.metrics {
            builder = builder.metrics();
        }
        if self.explorer {
            builder = builder.explorer();
        }
        // Everything that can be refused is refused before the store, whose directory may be created.
        builder = self.with_certificate(builder)?;
        let access = if self.read_only {
            Access::Read
        } else {
            Access::WriteOrCreate
        };
        let file_options = self.file_options()?;
        let names: Vec<_> = accounts.iter().map(Account::name).collect();
        let stores = self.store.of_accounts(&names)?;
        let serve = async |open: &[OpenStore]| self.serve(open, builder, &accounts).await;
        StoreName::with_all_open_to_serve(&stores, access, file_options, serve).await
    }

    /// Serves each account with its store.
    async fn serve(
        &self,
        open: &[OpenStore],
        builder: ServerBuilder,
        accounts: &[Account],
    ) -> Result<()> {
        let injector = self
            .faults
            .as_ref()
            .map(|faults| faults.injector(self.fault_seed));
        let add = |builder: ServerBuilder, (account, open): (&Account, &OpenStore)| {
            // Faults are outside of the retries of the open store: they are for the clients.
            let store = StoreBuilder::new(open.store.clone());
            let store = match &injector {
                Some(injector) => store.fault(injector.clone()),
                None => store,
            };
            builder.account(account.clone(), store.build())
        };
        let server = accounts
            .iter()
            .zip(open)
            .fold(builder, add)
            .start()
            .await
            .map_err(Failure::failed)?;
        self.warn(&server);
        for account in accounts {
            print(&format!("{}\n", self.connection_string(&server, account)))?;
        }
        tokio::select! {
            () = stopped() => {}
            () = end_of_input(), if self.until_eof => {}
        }
        if server.stop().await {
            return Ok(());
        }
        Err(Failure::failed(
            "requests were cut off after the stop time: their clients do not know the outcome",
        ))
    }

    fn file_options(&self) -> Result<FileOptions> {
        let options = FileOptions {
            cache: self.cache.map(|mib| (mib as usize).saturating_mul(1 << 20)),
            scan_up_to: self.scan_up_to.map(|mib| u64::from(mib) << 20),
        };
        if options != FileOptions::default() && !matches!(self.store, StoreName::Embedded(_)) {
            return Err(Failure::misuse(
                "--cache and --scan-up-to are for embedded stores: another store has no file",
            ));
        }
        Ok(options)
    }

    /// Returns how many connections the process has file descriptors for, at most the number of the argument. Without descriptors, the store
    /// could not open its files again after an error of the disk.
    #[cfg(unix)]
    fn connections(&self) -> usize {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let wanted = self.connections.saturating_add(OTHER_FILES) as u64;
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        // `None` is no limit.
        let Some(mut current) = current.filter(|current| *current < wanted) else {
            return self.connections;
        };
        let raised = maximum.map_or(wanted, |maximum| maximum.min(wanted));
        if setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(raised),
                maximum,
            },
        )
        .is_ok()
        {
            current = raised;
        }
        let possible = usize::try_from(current)
            .unwrap_or(usize::MAX)
            .saturating_sub(OTHER_FILES)
            .max(1);
        if possible < self.connections {
            remark(&format!(
                "warning: the process may open {current} files, so at most {possible} clients can be connected at once: raise the limit \
                 (`ulimit -n`) for {}",
                self.connections
            ));
        }
        possible.min(self.connections)
    }

    #[cfg(not(unix))]
    fn connections(&self) -> usize {
        self.connections
    }

    fn connection_string(&self, server: &Server, account: &Account) -> String {
        let text = server.connection_string(account.name()).unwrap_or_default();
        // The key of the emulator is published, so it may be shown. The account may have another key.
        if self.show_keys || account.name() == EMULATOR_ACCOUNT && text.contains(EMULATOR_KEY) {
            return text;
        }
        let settings = text
            .split(';')
            .map(|setting| match setting.split_once('=') {
                Some(("AccountKey", _)) => "AccountKey=<the key>",
                _ => setting,
            });
        settings.collect::<Vec<_>>().join(";")
    }

    fn warn(&self, server: &Server) {
        let is_encrypted = self.https.is_some() || self.self_signed.is_some();
        if !is_encrypted && !server.address().ip().is_loopback() {
            remark(
                "warning: other machines reach this server over http, which anyone on the way can read: use --https or --self-signed",
            );
        }
        if self.faults.is_some() {
            remark("warning: the server injects faults");
        }
    }

    fn with_certificate(&self, builder: ServerBuilder) -> Result<ServerBuilder> {
        let files = match (&self.https, &self.self_signed) {
            (Some(files), _) => match files.as_slice() {
                [chain, key] => (chain.clone(), key.clone()),
                _ => return Err(Failure::misuse("--https needs a certificate and a key")),
            },
            (None, Some(directory)) => self.self_signed(directory)?,
            (None, None) => return Ok(builder),
        };
        let (chain, key) = (read_file(&files.0)?, read_file(&files.1)?);
        let certificate = Certificate::from_pem(chain.as_bytes(), key.as_bytes());
        let named = |error| Failure::misuse(format!("{}: {error}", files.0.display()));
        Ok(builder.certificate(certificate.map_err(named)?))
    }

    /// Returns the files of the certificate of a directory, which are made if both are missing.
    fn self_signed(&self, directory: &Path) -> Result<(PathBuf, PathBuf)> {
        let (certificate, key) = (directory.join(CERTIFICATE), directory.join(KEY));
        // One of two files is not replaced: clients may trust the certificate, and a new key would not match it. Reading them then names
        // the missing file.
        if certificate.exists() || key.exists() {
            remark(&format!("uses {}", certificate.display()));
            return Ok((certificate, key));
        }
        let mut names = vec![
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "::1".to_owned(),
        ];
        // Clients cannot connect to 0.0.0.0, so it is no name for a certificate.
        let address = Some(self.listen.ip()).filter(|ip| !ip.is_unspecified() && !ip.is_loopback());
        names.extend(address.map(|ip| ip.to_string()));
        names.extend(self.host.clone());
        let made = SelfSigned::new(names).map_err(Failure::misuse)?;
        let failed = |error| {
            Failure::failed(format!(
                "{} cannot be written: {error}",
                directory.display()
            ))
        };
        let is_new = !directory.exists();
        fs::create_dir_all(directory).map_err(failed)?;
        write_secret(&key, &made.key).map_err(failed)?;
        fs::write(&certificate, &made.certificate).map_err(failed)?;
        // Clients read the certificate.
        if is_new {
            make_readable(directory, 0o755).map_err(failed)?;
        }
        make_readable(&certificate, 0o644).map_err(failed)?;
        remark(&format!(
            "made {}, valid until {}",
            certificate.display(),
            made.valid_until
        ));
        Ok((certificate, key))
    }
}

/// Writes a file that other users cannot read.
fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    // A file that exists would keep its mode, which may let others read it.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

/// Lets other users read what the process has created.
#[cfg(unix)]
fn make_readable(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
}

#[cfg(not(unix))]
fn make_readable(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

fn read_file(path: &Path) -> Result<String> {
    fs::read_to_string(path)
        .map_err(|error| Failure::misuse(format!("{} cannot be read: {error}", path.display())))
}

/// Reads the accounts with their keys. No error repeats an argument, which may be a key that was written into the wrong place.
fn accounts(arguments: &[String]) -> Result<Vec<Account>> {
    let mut accounts: Vec<Account> = Vec::new();
    for (number, argument) in arguments.iter().enumerate() {
        let form = || {
            Failure::misuse(
                "--account is NAME:env:VARIABLE or NAME:file:PATH: the variable or the file has the key, which other users of the \
                 machine could read in the command line",
            )
        };
        let (name, place) = argument.split_once(':').ok_or_else(form)?;
        let of = || format!("the --account {}", number + 1);
        let key = match place.split_once(':').ok_or_else(form)? {
            ("env", variable) => std::env::var(variable).map_err(|_| {
                Failure::misuse(format!(
                    "{} names an environment variable that is not set: set it to the key",
                    of()
                ))
            })?,
            ("file", path) => fs::read_to_string(path).map_err(|error| {
                Failure::misuse(format!(
                    "{} names a file that cannot be read: {error}",
                    of()
                ))
            })?,
            _ => return Err(form()),
        };
        let known = accounts.iter().position(|account| account.name() == name);
        let account = match known {
            // As in the service: one key is replaced while clients use the other.
            Some(index) => accounts.remove(index).with_second_key(key.trim()),
            None => Account::new(name, key.trim()),
        };
        let account = account.map_err(|_| {
            Failure::misuse(format!(
                "{} is not valid: a name has 3 to 24 small letters and digits, and a key is base64",
                of()
            ))
        })?;
        accounts.insert(known.unwrap_or(accounts.len()), account);
    }
    if accounts.is_empty() {
        accounts.push(Account::emulator());
    }
    Ok(accounts)
}

fn start_log(level: &str) {
    let level: LevelFilter = level.parse().unwrap_or(LevelFilter::WARN);
    // Fails if the process has a subscriber already, which then has the log.
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(log_output);
    // Colours are escape sequences too, which the output would not let through.
    let _ = log.with_ansi(false).try_init();
}

async fn end_of_input() {
    // The thread cannot be cancelled. After a signal it still reads, and `main` does not wait for it.
    let _ = tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await;
}
