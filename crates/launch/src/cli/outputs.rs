//! The files, folders and endpoints that a job writes to: named by the command line, and created
//! once every other check has passed.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::ready::Ready;
use super::refused::Refused;
use super::resume;
use crate::readers::{Endpoint, OutputFile, Readers};

/// The machine-readable outputs, as the command line names them.
#[derive(Debug)]
pub struct Outputs {
    /// The file for the record.
    pub report: Option<PathBuf>,
    /// The file for events; `-` is standard output.
    pub events: Option<PathBuf>,
    /// The endpoint for metrics.
    pub metrics: Option<String>,
}

impl Ready {
    /// Creates the folders for checkpoints and for the output of PEs, and opens the machine-readable
    /// outputs.
    ///
    /// # Errors
    /// One of them cannot be created or opened.
    pub fn open_outputs(&self) -> Result<Readers, Refused> {
        resume::make_store(&self.settings)?;
        self.programs.output.as_deref().map(make_folder).transpose()?;
        self.outputs.open()
    }
}

impl Outputs {
    fn open(&self) -> Result<Readers, Refused> {
        let refuse = |option: &'static str, path: &Path| {
            let path = path.to_owned();
            let expected = "a file that can be made, or be written to";
            move |error| Refused::Folder { option, path, error, expected }
        };
        let report = self
            .report
            .as_deref()
            .map(|path| OutputFile::create("--report", path).map_err(refuse("--report", path)));
        let events = self.events.as_deref().map(|path| {
            let sink = match path.to_str() {
                Some("-") => OutputFile::stdout("--events"),
                _ => OutputFile::create("--events", path),
            };
            sink.map_err(refuse("--events", path))
        });
        let metrics = self.metrics.clone().map(|got| match Endpoint::open(&got) {
            Some(Ok(endpoint)) => Ok(endpoint),
            Some(Err(error)) => Err(Refused::Metrics { got, why: error.to_string() }),
            None => Err(Refused::Metrics {
                got,
                why: "expected PORT, ADDRESS:PORT, or a path with a / in it".to_owned(),
            }),
        });
        let (report, events) = (report.transpose()?, events.transpose()?);
        Ok(Readers { report, events, metrics: metrics.transpose()? })
    }
}

/// Returns the absolute path of the folder for the output of PEs.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, Refused> {
    std::path::absolute(path).map_err(|error| no_folder(path, error))
}

fn make_folder(path: &Path) -> Result<(), Refused> {
    std::fs::create_dir_all(path).map_err(|error| no_folder(path, error))
}

fn no_folder(path: &Path, error: std::io::Error) -> Refused {
    let expected = "a folder that can be made, or be written to";
    Refused::Folder { option: "--output", path: path.to_owned(), error, expected }
}
