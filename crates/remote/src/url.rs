//! Addresses of nodes.

use std::{fmt, str::FromStr};

/// What ends host and port. No address should have a backslash, but some programs take it for a slash.
const AFTER_PORT: [char; 4] = ['/', '?', '#', '\\'];

/// Where a node listens: `ws://HOST:PORT/PATH`, or `wss://` with TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeUrl {
    text: String,
    tls: bool,
    host: String,
    port: u16,
}

/// The error for an address that is not a WebSocket address.
///
/// Its fields are scheme, host and port of the address as far as it has them, because the rest can hold a secret. `…`
/// stands for a user name and a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It has another form.
    #[error("expected ws://HOST:PORT or wss://HOST, found `{0}`")]
    Form(String),
    /// It has a user name or a password. They would end up in messages.
    #[error("expected an address without a user name and a password, found one: `{0}`")]
    User(String),
}

impl UrlError {
    /// Scheme, host and port of the address, with `…@` before the host if a user name was there.
    pub fn found(&self) -> &str {
        let (Self::Form(found) | Self::User(found)) = self;
        found
    }
}

impl NodeUrl {
    /// Whether the address asks for TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The whole address. No message may show it, because its path can hold a secret.
    pub(crate) fn whole(&self) -> &str {
        &self.text
    }
}

impl FromStr for NodeUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (tls, rest) = match (text.strip_prefix("ws://"), text.strip_prefix("wss://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(UrlError::Form(shown(text))),
        };
        // A backslash ends no authority, so a user name or a password may have one.
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            let shown = shown(text).replacen("://", "://…@", 1);
            return Err(UrlError::User(shown));
        }
        let wrong = || UrlError::Form(shown(text));
        let authority = rest.split(AFTER_PORT).next().unwrap_or_default();
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(wrong());
        }
        let default = if tls { 443 } else { 80 };
        let (host, port) = match authority.strip_prefix('[') {
            Some(v6) => {
                let (host, rest) = v6.split_once(']').ok_or_else(wrong)?;
                let port = rest.strip_prefix(':');
                if port.is_none() && !rest.is_empty() {
                    return Err(wrong());
                }
                (host, port)
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = port.map_or(Ok(default), str::parse).map_err(|_| wrong())?;
        if host.is_empty() || port == 0 {
            return Err(wrong());
        }
        Ok(Self {
            text: text.to_owned(),
            tls,
            host: host.to_owned(),
            port,
        })
    }
}

/// The part of an address that a message can show: scheme, host and port, without user, path and query.
fn shown(text: &str) -> String {
    let is_scheme = |scheme: &str| {
        let mut chars = scheme.chars();
        chars.all(|c| c.is_ascii_alphanumeric() || ['+', '-', '.'].contains(&c))
    };
    let split = text.split_once("://");
    let (scheme, rest) = match split.filter(|(scheme, _)| is_scheme(scheme)) {
        Some((scheme, rest)) => (&text[..scheme.len() + 3], rest),
        None => ("", text),
    };
    let end = rest.find(AFTER_PORT).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = match authority.rsplit_once('@') {
        // A password may have a slash, so the authority may be the beginning of one.
        _ if path.contains('@') => "",
        Some((_, host)) => host,
        None => authority,
    };
    format!("{scheme}{host}")
}

/// Shows scheme, host and port, but no path, which can hold a secret.
/// As [`Display`](fmt::Display), because the path can hold a secret.
impl fmt::Debug for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeUrl({self})")
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "wss" } else { "ws" };
        let (host, port) = (&self.host, self.port);
        match host.contains(':') {
            true => write!(f, "{scheme}://[{host}]:{port}"),
            false => write!(f, "{scheme}://{host}:{port}"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for (text, tls, host, port) in [
            ("ws://127.0.0.1:9944", false, "127.0.0.1", 9944),
            ("ws://node", false, "node", 80),
            (
                "wss://rpc.example.org/key?a=b:c",
                true,
                "rpc.example.org",
                443,
            ),
            ("wss://[::1]:9945/", true, "::1", 9945),
            ("ws://[::1]", false, "::1", 80),
        ] {
            let url: NodeUrl = text.parse().unwrap();
            assert_eq!((url.is_tls(), url.host(), url.port()), (tls, host, port));
            assert_eq!(url.whole(), text);
            let shown = url.to_string();
            assert!(
                !shown.contains("key") && shown.ends_with(&format!(":{port}")),
                "{shown}"
            );
            assert_eq!(shown.parse::<NodeUrl>().unwrap().host(), host);
            assert_eq!(format!("{url:?}"), format!("NodeUrl({shown})"));
        }
        for text in [
            "",
            "node",
            "http://node",
            "ws://",
            "ws://:9944",
            "ws://node:",
            "ws://node:99999",
            "ws://node:0",
            "ws://[::1",
            "ws://[::1]x",
            "ws://no de",
        ] {
            let error = text.parse::<NodeUrl>().unwrap_err();
            assert_eq!(error, UrlError::Form(text.to_owned()));
        }
    }

    #[test]
    fn no_message_shows_a_secret() {
        let form = |found: &str| UrlError::Form(found.to_owned());
        let user = |found: &str| UrlError::User(found.to_owned());
        for (text, expected) in [
            (
                "https://node.example:1/v1/secret",
                form("https://node.example:1"),
            ),
            ("http://node?key=secret", form("http://node")),
            ("ws://node:x#secret", form("ws://node:x")),
            ("ws://node:70000/secret", form("ws://node:70000")),
            // A password may have a slash, so what is before it is not shown.
            ("ws://node:70000/secret@secret", form("ws://")),
            ("ws://me:secret/secret@node", form("ws://")),
            ("ws://node:x?secret@secret", form("ws://")),
            ("ws://me:secret@node", user("ws://…@node")),
            ("ws://secret@node:70000", user("ws://…@node:70000")),
            ("ws://@node", user("ws://…@node")),
            ("ws://me:sec ret@node", user("ws://…@node")),
            (
                "wss://me:secret@secret@node:1/secret",
                user("wss://…@node:1"),
            ),
            ("ws://me:a@secret/secret@node", user("ws://…@")),
            ("ws://me:secret\\secret@node", user("ws://…@")),
            ("node:1/secret", form("node:1")),
            ("me:secret@node/secret", form("node")),
            ("me:secret/secret@node", form("")),
            ("https://me:secret@node", form("https://node")),
            ("https:/node/secret", form("https:")),
            ("ws:\\\\node\\secret", form("ws:")),
            ("node/secret?to=ws://node", form("node")),
            ("me:secret@ws://node", form("ws:")),
            ("https://\u{e4}/secret", form("https://\u{e4}")),
        ] {
            let error = text.parse::<NodeUrl>().unwrap_err();
            assert_eq!(error, expected, "{text}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        for text in [
            "ws://node#secret",
            "ws://node/secret",
            "ws://node/secret@secret",
            "ws://node\\secret",
        ] {
            let url: NodeUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), "ws://node:80", "{text}");
        }
    }
}
