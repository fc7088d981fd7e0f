//! As much of HTTP as it takes to see whether a server answers.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Where to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    host: String,
    pub(super) port: u16,
    path: String,
}

/// A server that has not answered by then is not ready.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// More than a page, and an end to a stream.
const LONGEST_REST: u64 = 1 << 20;

/// What a status line needs.
const STATUS_LINE: usize = 64;

impl Url {
    /// Reads `http://host:port/path`, or tells why not.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => {
                return Err("only http:// can be asked; wait for the port, or for a line");
            }
            _ => return Err("it must begin with http://"),
        };
        if text.contains(|c: char| c.is_control() || c == ' ') {
            return Err("it must hold neither blanks nor control characters");
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        if authority.contains('@') {
            return Err("it must not hold a user");
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (
                host,
                port.parse()
                    .map_err(|_| "its port must be a number up to 65535")?,
            ),
            _ => (authority, 80),
        };
        if host.is_empty() || port == 0 {
            return Err("it needs a host, and a port that is not 0");
        }
        Ok(Self {
            host: host.into(),
            port,
            path: if path.starts_with('/') {
                path.into()
            } else {
                format!("/{path}")
            },
        })
    }

    /// Its host, as it was written.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether it leads to this machine, as far as is known by now.
    pub async fn is_here(&self) -> bool {
        let addresses = tokio::time::timeout(PATIENCE, self.addresses()).await;
        addresses.is_ok_and(|addresses| addresses.into_iter().any(is_here))
    }

    /// Whether it answers with a success or a redirection at this address, if it answers at all.
    pub(super) async fn answers(&self, address: SocketAddr) -> Option<bool> {
        let status = self.ask(address).await.ok()??;
        Some((200..400).contains(&status))
    }

    async fn ask(&self, address: SocketAddr) -> std::io::Result<Option<u16>> {
        let mut server = TcpStream::connect(address).await?;
        let Self { host, port, path } = self;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: mcp-sidecar/{}\r\nAccept: */*\r\nConnection: close\r\n\r\n",
            env!("CARGO_PKG_VERSION")
        );
        server.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.contains(&b'\n') && answer.len() < STATUS_LINE {
            if server.read_buf(&mut answer).await? == 0 {
                break;
            }
        }
        tokio::spawn(take_the_rest(server));
        Ok(status(&answer))
    }

    fn ip(&self) -> Option<IpAddr> {
        let host = self
            .host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        host.unwrap_or(&self.host).parse().ok()
    }

    /// Where it leads now.
    pub(super) async fn addresses(&self) -> Vec<SocketAddr> {
        let port = self.port;
        if self.host == "localhost" {
            return vec![
                (Ipv4Addr::LOCALHOST, port).into(),
                (Ipv6Addr::LOCALHOST, port).into(),
            ];
        }
        match self.ip() {
            Some(ip) => vec![(ip, port).into()],
            // On a thread of tokio's own, however long the resolver takes.
            None => match tokio::net::lookup_host((&*self.host, port)).await {
                Ok(found) => found.collect(),
                Err(_) => Vec::new(),
            },
        }
    }
}

/// Whether an address is this machine's: one of the loop, or one that a socket can be bound to.
pub(super) fn is_here(address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    let mut own = SocketAddr::new(ip, 0);
    if let (SocketAddr::V6(own), SocketAddr::V6(address)) = (&mut own, address) {
        own.set_scope_id(address.scope_id());
    }
    // Only this error says that it is another's; where a socket is not to be had, nobody knows.
    let is_elsewhere = |error: std::io::Error| error.kind() == ErrorKind::AddrNotAvailable;
    ip.is_loopback() || ip.is_unspecified() || !UdpSocket::bind(own).is_err_and(is_elsewhere)
}

/// Reads what a server still writes, within bounds: one that is cut off complains in its log.
async fn take_the_rest(server: TcpStream) {
    let mut rest = server.take(LONGEST_REST);
    let _ =
        tokio::time::timeout(PATIENCE, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}

/// The number in `HTTP/1.1 200 OK`.
fn status(answer: &[u8]) -> Option<u16> {
    let mut words = answer.split(|byte| *byte == b' ');
    if !words.next()?.starts_with(b"HTTP/") {
        return None;
    }
    let number = words.next()?.get(..3)?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        for (text, host, port, path) in [
            ("http://localhost:3000", "localhost", 3000, "/"),
            ("http://127.0.0.1/a?b#c", "127.0.0.1", 80, "/a?b"),
            ("http://[::1]:8080/x", "[::1]", 8080, "/x"),
            ("http://[::1]", "[::1]", 80, "/"),
            ("http://example.com?q", "example.com", 80, "/?q"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!(
                (&*url.host, url.port, &*url.path),
                (host, port, path),
                "{text}"
            );
        }
        for text in [
            "localhost:3000",
            "https://localhost",
            "ftp://x",
            "http://",
            "http://:80",
            "http://a:99999",
            "http://a:0",
            "http://a/ b",
            "http://a/\r\nX: y",
            "http://user@a/",
        ] {
            Url::parse(text).unwrap_err();
        }
    }

    #[test]
    fn an_address_of_this_machine_is_one_in_every_form() {
        for (address, here) in [
            ("127.0.0.1:80", true),
            ("127.9.9.9:80", true),
            ("0.0.0.0:80", true),
            ("[::]:80", true),
            ("[::1]:80", true),
            ("[::ffff:127.0.0.1]:80", true),
            ("[::ffff:0.0.0.0]:80", true),
            // For documentation, so nobody's.
            ("192.0.2.1:80", false),
            ("[::ffff:192.0.2.1]:80", false),
        ] {
            assert_eq!(is_here(address.parse().unwrap()), here, "{address}");
        }
    }

    #[test]
    fn a_status_is_three_digits() {
        assert_eq!(status(b"HTTP/1.1 204 No Content\r\n"), Some(204));
        assert_eq!(status(b"HTTP/1.0 301\r\n"), Some(301));
        for answer in [
            &b""[..],
            b"SSH-2.0 200 x",
            b"HTTP/1.1",
            b"HTTP/1.1 2",
            b"HTTP/1.1 abc",
        ] {
            assert_eq!(status(answer), None);
        }
    }
}
