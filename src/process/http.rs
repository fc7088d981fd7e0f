//! As much of HTTP as it takes to see whether a server answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

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
const PATIENCE: Duration = Duration::from_secs(5);

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

    /// Whether it means this machine.
    pub(super) fn is_local(&self) -> bool {
        self.host == "localhost"
            || self
                .ip()
                .is_some_and(|ip| ip.is_loopback() || ip.is_unspecified())
    }

    /// Whether it answers with a success or a redirection.
    pub(super) async fn answers(&self, deadline: Instant) -> bool {
        let deadline = deadline.min(Instant::now() + PATIENCE);
        let asked = tokio::time::timeout_at(deadline.into(), async {
            for address in self.addresses().await {
                if let Ok(Some(status)) = self.ask(address).await {
                    return (200..400).contains(&status);
                }
            }
            false
        });
        asked.await.unwrap_or(false)
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

    async fn addresses(&self) -> Vec<SocketAddr> {
        let port = self.port;
        if self.host == "localhost" {
            return vec![
                (Ipv4Addr::LOCALHOST, port).into(),
                (Ipv6Addr::LOCALHOST, port).into(),
            ];
        }
        match self.ip() {
            Some(ip) => vec![(ip, port).into()],
            None => match tokio::net::lookup_host((&*self.host, port)).await {
                Ok(found) => found.collect(),
                Err(_) => Vec::new(),
            },
        }
    }
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
        for (text, host, port, path, local) in [
            ("http://localhost:3000", "localhost", 3000, "/", true),
            ("http://127.0.0.1/a?b#c", "127.0.0.1", 80, "/a?b", true),
            ("http://[::1]:8080/x", "[::1]", 8080, "/x", true),
            ("http://[::1]", "[::1]", 80, "/", true),
            ("http://example.com?q", "example.com", 80, "/?q", false),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!(
                (&*url.host, url.port, &*url.path),
                (host, port, path),
                "{text}"
            );
            assert_eq!(url.is_local(), local, "{text}");
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
