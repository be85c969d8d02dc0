//! What can go wrong.
use std::fmt;

/// Why a call failed. The sentence about it is in the log of the engine (`MC_LOG_LEVEL`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub i32);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:expr, $text:expr;)*) => {
        #[allow(missing_docs)]
        impl Code {
            $($(#[$doc])* pub const $name: Code = Code($value);)*
        }

        impl fmt::Display for Code {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Code::$name => write!(f, "{} ({})", $text, self.0),)*
                    _ => write!(f, "code {}", self.0),
                }
            }
        }
    };
}

codes! {
    /// An unknown id or handle, a length that wraps, a range outside its region.
    INVALID_ARGUMENT = -1, "invalid argument";
    /// Beyond the batch's capacity.
    TOO_MANY_REQUESTS = -2, "too many requests";
    ADDRESS_NOT_REGISTERED = -3, "address not registered";
    /// Something of it is in flight.
    BATCH_BUSY = -4, "batch busy";
    DEVICE_NOT_FOUND = -6, "device not found";
    /// It is registered already, or a part of it.
    ADDRESS_OVERLAPPED = -7, "address overlaps a registered buffer";
    DNS = -101, "unknown host";
    SOCKET = -102, "socket";
    MALFORMED_JSON = -103, "malformed JSON";
    REJECT_HANDSHAKE = -104, "handshake refused";
    /// The store has no such segment, or cannot be reached.
    METADATA = -200, "metadata";
    /// Anything else that failed on the way.
    ENDPOINT = -201, "endpoint";
    CONTEXT = -202, "cannot open";
    TIMEOUT = -203, "timed out";
    NUMA = -300, "NUMA";
    CLOCK = -301, "clock";
    MEMORY = -302, "out of memory";
    NOT_IMPLEMENTED = -303, "not implemented";
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How a request is, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// In flight.
    Waiting,
    /// The target range is in no buffer there.
    Invalid,
    /// Its engine was closed.
    Canceled,
    /// READ: the bytes are here. WRITE: they are in the target's memory.
    Completed,
    /// `MC_TRANSFER_TIMEOUT` is over.
    Timeout,
    /// Also after retries.
    Failed,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Waiting => "in flight",
            State::Invalid => "its range is in no buffer of the target",
            State::Canceled => "canceled",
            State::Completed => "completed",
            State::Timeout => "timed out",
            State::Failed => "failed",
        })
    }
}

/// What every fallible call of this crate returns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A call of the library.
    Call {
        /// Its C name, `"openSegment"`.
        call: &'static str,
        /// What it was about, a segment's name or a protocol; may be empty.
        name: String,
        /// Why.
        code: Code,
    },
    /// A request that has ended other than completed.
    Transfer {
        /// Its place in the batch.
        task: usize,
        /// How it ended.
        state: State,
    },
    /// The requests of a batch are still in flight.
    NotYet,
}

impl Error {
    /// The code of a call that failed.
    pub fn code(&self) -> Option<Code> {
        match self {
            Error::Call { code, .. } => Some(*code),
            _ => None,
        }
    }

    pub(crate) fn call(call: &'static str, name: &str, code: Code) -> Error {
        Error::Call { call, name: name.to_string(), code }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Call { call, name, code } if name.is_empty() => write!(f, "{call}: {code}"),
            Error::Call { call, name, code } => write!(f, "{call} '{name}': {code}"),
            Error::Transfer { task, state } => write!(f, "request {task}: {state}"),
            Error::NotYet => f.write_str("still in flight"),
        }
    }
}

impl std::error::Error for Error {}

/// `Result` with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// 0 and more are good.
pub(crate) fn check(r: i32, call: &'static str, name: &str) -> Result<i32> {
    if r >= 0 {
        Ok(r)
    } else {
        Err(Error::call(call, name, Code(r)))
    }
}
