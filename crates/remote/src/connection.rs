//! One WebSocket connection, with a deadline for each exchange.
//!
//! Nodes use jsonrpsee 0.24. Its asynchronous client would add 50 crates to the build, and the features that
//! it enables in serde_json and syn make cargo compile the whole FRAME runtime again. tungstenite adds two
//! crates and no feature (cargo tree, 2026-11-23). It blocks its thread, but a block waits for each
//! node anyway.

use crate::{error::RemoteError, url::NodeUrl};
use bytes::Bytes;
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};
use tungstenite::{
    error::CapacityError, protocol::WebSocketConfig, stream::MaybeTlsStream, Error, HandshakeError,
    Message, WebSocket,
};

/// The largest answer in bytes. A runtime has a few mebibytes, and twice as many in hexadecimal.
const LARGEST_ANSWER: usize = 128 << 20;

/// The shortest time for a connection. Zero would be an error.
const SHORTEST: Duration = Duration::from_millis(1);

/// A connection to a node.
pub(crate) struct Connection(WebSocket<MaybeTlsStream<TimedStream>>);

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum NotOpened {
    /// The node accepted the connection, but did not answer the handshake in time.
    TimedOut,
    For(RemoteError),
}

/// Why an exchange on a connection failed.
#[derive(Debug)]
pub(crate) enum Interrupted {
    TimedOut,
    TooLarge(String),
    Broken(String),
}

impl Connection {
    /// Connects to the node at `url` before `deadline`.
    ///
    /// # Errors
    /// A [`NotOpened`], with [`RemoteError::Connect`] if there is no connection, and [`RemoteError::NoTls`] if TLS is
    /// missing.
    pub(crate) fn open(url: &NodeUrl, deadline: Instant) -> Result<Self, NotOpened> {
        let failed = |reason: String| {
            NotOpened::For(RemoteError::Connect {
                url: url.to_string(),
                reason,
            })
        };
        if url.is_tls() && !cfg!(feature = "tls") {
            return Err(NotOpened::For(RemoteError::NoTls {
                url: url.to_string(),
            }));
        }
        let tcp = connect(url, deadline).map_err(|error| failed(error.to_string()))?;
        let stream = TimedStream { tcp, deadline };
        let config = WebSocketConfig::default()
            .max_message_size(Some(LARGEST_ANSWER))
            .max_frame_size(Some(LARGEST_ANSWER));
        #[cfg(feature = "tls")]
        let shaken = {
            choose_cryptography();
            tungstenite::client_tls_with_config(url.whole(), stream, Some(config), None)
        };
        #[cfg(not(feature = "tls"))]
        let shaken = {
            let stream = MaybeTlsStream::Plain(stream);
            tungstenite::client::client_with_config(url.whole(), stream, Some(config))
        };
        let (socket, _) = shaken.map_err(|error| match error {
            HandshakeError::Failure(error) => match interrupted(error) {
                Interrupted::TimedOut => NotOpened::TimedOut,
                Interrupted::TooLarge(reason) | Interrupted::Broken(reason) => failed(reason),
            },
            HandshakeError::Interrupted(_) => NotOpened::TimedOut,
        })?;
        Ok(Self(socket))
    }

    /// Sets the deadline of the messages that follow.
    pub(crate) fn until(&mut self, deadline: Instant) {
        let stream = match self.0.get_mut() {
            MaybeTlsStream::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            MaybeTlsStream::Rustls(stream) => &mut stream.sock,
            _ => return,
        };
        stream.deadline = deadline;
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Why the message was not sent. The connection is of no use after that.
    pub(crate) fn send(&mut self, text: String) -> Result<(), Interrupted> {
        self.0.send(Message::text(text)).map_err(interrupted)
    }

    /// The next message.
    ///
    /// # Errors
    /// Why there is no message. The connection is of no use after that.
    pub(crate) fn receive(&mut self) -> Result<Bytes, Interrupted> {
        loop {
            match self.0.read().map_err(interrupted)? {
                Message::Text(text) => return Ok(text.into()),
                Message::Binary(bytes) => return Ok(bytes),
                Message::Close(_) => {
                    return Err(Interrupted::Broken("the node closed it".to_owned()))
                }
                // tungstenite answers pings.
                _ => {}
            }
        }
    }
}

fn interrupted(error: Error) -> Interrupted {
    match error {
        Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => Interrupted::TimedOut,
        Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => {
            Interrupted::TooLarge(format!("{size} bytes, at most {max_size} are read"))
        }
        other => Interrupted::Broken(other.to_string()),
    }
}

/// Chooses the implementation of TLS for the process, unless the program has chosen one.
#[cfg(feature = "tls")]
fn choose_cryptography() {
    // Fails only if there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Connects to the first address of `url` that answers.
fn connect(url: &NodeUrl, deadline: Instant) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = (url.host(), url.port()).to_socket_addrs()?.collect();
    let tcp = first_of(&addresses, || left(deadline), TcpStream::connect_timeout)?;
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

/// The connection to the first of `addresses` for which `connect` makes one. Each address has an equal share of the
/// time that is `left`, so that a silent address leaves time for those after it.
fn first_of<T>(
    addresses: &[SocketAddr],
    left: impl Fn() -> io::Result<Duration>,
    connect: impl Fn(&SocketAddr, Duration) -> io::Result<T>,
) -> io::Result<T> {
    let mut failure = None;
    for (address, to_try) in addresses.iter().zip((1..=addresses.len()).rev()) {
        let left = match left() {
            Ok(left) => left,
            // Why the address before failed says more than that the time is over.
            Err(late) => return Err(failure.unwrap_or(late)),
        };
        let share = left / u32::try_from(to_try).unwrap_or(u32::MAX);
        match connect(address, share.max(SHORTEST)) {
            Ok(connection) => return Ok(connection),
            Err(error) => failure = Some(error),
        }
    }
    let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    Err(failure.unwrap_or_else(none))
}

/// The time until `deadline`, never zero; an error after it.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
    }
    Ok(left)
}

/// A stream whose reads and writes fail after a deadline, even if the other side sends slowly.
struct TimedStream {
    tcp: TcpStream,
    deadline: Instant,
}

/// Gives the error for a time-out the same kind on all systems.
fn timed(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, error),
        _ => error,
    }
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tcp.set_read_timeout(Some(left(self.deadline)?))?;
        self.tcp.read(buffer).map_err(timed)
    }
}

impl Write for TimedStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.tcp.set_write_timeout(Some(left(self.deadline)?))?;
        self.tcp.write(buffer).map_err(timed)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    const LIMIT: Duration = Duration::from_millis(300);

    /// The time until a deadline. It passes only when a test says so.
    struct Clock(Cell<Duration>);

    impl Clock {
        fn new() -> Self {
            Self(Cell::new(LIMIT))
        }

        fn wait(&self, time: Duration) {
            self.0.set(self.0.get().saturating_sub(time));
        }

        fn left(&self) -> io::Result<Duration> {
            match self.0.get() {
                Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
                left => Ok(left),
            }
        }
    }

    fn addresses(count: u16) -> Vec<SocketAddr> {
        let ports = 1..=count;
        ports.map(|port| ([127, 0, 0, 1], port).into()).collect()
    }

    #[test]
    fn a_silent_address_leaves_time_for_the_next() {
        let addresses = addresses(3);
        let (clock, limits) = (Clock::new(), RefCell::new(Vec::new()));
        let connected = first_of(
            &addresses,
            || clock.left(),
            |address, limit| {
                limits.borrow_mut().push(limit);
                if address.port() == 3 {
                    return Ok(address.port());
                }
                clock.wait(limit);
                Err(io::Error::from(io::ErrorKind::TimedOut))
            },
        );
        assert_eq!(connected.unwrap(), 3);
        assert_eq!(limits.into_inner(), [LIMIT / 3; 3]);
        // An address that refuses at once leaves its share to the others.
        let limits = RefCell::new(Vec::new());
        let clock = Clock::new();
        let refused = first_of(
            &addresses,
            || clock.left(),
            |_, limit| {
                limits.borrow_mut().push(limit);
                Err::<(), _>(io::Error::from(io::ErrorKind::ConnectionRefused))
            },
        );
        assert_eq!(
            refused.unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        assert_eq!(limits.into_inner(), [LIMIT / 3, LIMIT / 2, LIMIT]);
    }

    #[test]
    fn the_last_failure_says_more_than_a_time_out() {
        let clock = Clock::new();
        let error = first_of(
            &addresses(2),
            || clock.left(),
            |address, _| {
                // Longer than its share.
                clock.wait(LIMIT);
                Err::<(), _>(io::Error::other(address.to_string()))
            },
        );
        assert_eq!(error.unwrap_err().to_string(), "127.0.0.1:1");
        let over = Instant::now();
        let late = first_of(&addresses(1), || left(over), |_, _| Ok(()));
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let none = first_of(&[], || Ok(LIMIT), |_, _| Ok(()));
        assert_eq!(none.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
