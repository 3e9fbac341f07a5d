//! Reads a Redis URL: which servers to ask first, how they are laid out, and the login. Refuses
//! what it does not understand, in messages that quote nothing of the URL, because it may contain a
//! password. The settings validate a URL with it, and the store connects with it.

use std::fmt;

use percent_encoding::percent_decode_str;

use super::secret::Secret;

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// The name of the master for sentinels, unless the URL has another.
const SERVICE: &str = "mymaster";

/// A server, as others name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Host {
    /// A name or digits; an IPv6 address without brackets.
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl Host {
    pub(crate) fn new(name: impl Into<String>, port: u16) -> Self {
        Self {
            name: name.into(),
            port,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

/// How the servers are laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One server.
    Single,
    /// Masters that share the slots; the hosts are some of them.
    Cluster,
    /// One master that may change; the hosts are sentinels that know it under this name.
    Sentinel(String),
}

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) layout: Layout,
    pub(crate) tls: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    /// At least one.
    pub(crate) hosts: Vec<Host>,
    pub(crate) database: Option<u8>,
}

impl Address {
    /// Reads `redis[s]://[[user]:password@]host[:port][/db]`, `redis[s]-cluster://…host[:port],…`
    /// or `redis[s]-sentinel://…host[:port],…[/service]`. The error says what is wrong and what
    /// would be right.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const SINGLE: &str = "right would be redis://[user:password@]host[:port][/db]";
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| format!("has no scheme; {SINGLE}"))?;
        let tls = scheme.starts_with("rediss");
        let (layout, shape) = match scheme.strip_prefix(if tls { "rediss" } else { "redis" }) {
            Some("") => (Layout::Single, "host[:port][/db]"),
            Some("-cluster") => (Layout::Cluster, "host[:port][,host[:port]…]"),
            Some("-sentinel") => (
                Layout::Sentinel(SERVICE.to_owned()),
                "host[:port][,host[:port]…][/service]",
            ),
            _ => {
                return Err(format!(
                    "is no Redis URL; {SINGLE}, or one that begins with {SCHEMES}"
                ));
            }
        };
        let address = Self {
            layout,
            tls,
            user: None,
            password: None,
            hosts: Vec::new(),
            database: None,
        };
        address.read(rest).map_err(|Flaw { problem, hint }| {
            format!("{problem}; right would be {scheme}://[user:password@]{shape}{hint}")
        })
    }

    /// Reads the part after the scheme.
    fn read(mut self, rest: &str) -> Result<Self, Flaw> {
        if rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(Flaw {
                problem: "has a space in it",
                hint: ", with %20 for a space",
            });
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = match authority.rsplit_once('@') {
            Some((login, hosts)) => {
                (self.user, self.password) = read_login(login)?;
                hosts
            }
            None => authority,
        };
        self.hosts = hosts
            .split(',')
            .map(|host| self.read_host(host))
            .collect::<Result<_, _>>()?;
        if self.layout == Layout::Single && self.hosts.len() > 1 {
            return Err(Flaw::without_hint("has several hosts"));
        }
        match &mut self.layout {
            _ if path.is_empty() => {}
            Layout::Single => {
                let database = path.parse().map_err(|_| Flaw {
                    problem: "has a database that is no number",
                    hint: ", with %2F for / in a password",
                })?;
                self.database = Some(database);
            }
            Layout::Cluster => {
                return Err(Flaw::without_hint("has a database, and a cluster has none"));
            }
            Layout::Sentinel(_) if path.contains(['/', '?', '#']) => {
                return Err(Flaw::without_hint("has no service's name after the hosts"));
            }
            Layout::Sentinel(service) => path.clone_into(service),
        }
        Ok(self)
    }

    fn read_host(&self, text: &str) -> Result<Host, Flaw> {
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
            _ => (text, None),
        };
        let in_brackets = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        if name.is_empty()
            || (name.contains([':', '@', '?', '#', '[', ']']) && in_brackets.is_none())
        {
            return Err(Flaw {
                problem: "has no host",
                hint: ", with %40, %2F and %3A for @, / and : in a password",
            });
        }
        let port = match port {
            Some(digits) => match digits.parse() {
                Ok(port) if port != 0 => port,
                _ => {
                    return Err(Flaw {
                        problem: "has a port that is no number from 1 to 65535",
                        hint: ", with %2F for / in a password",
                    });
                }
            },
            None if matches!(self.layout, Layout::Sentinel(_)) => SENTINEL_PORT,
            None => PORT,
        };
        Ok(Host::new(in_brackets.unwrap_or(name), port))
    }
}

/// A mistake in a URL.
struct Flaw {
    problem: &'static str,
    /// The text that follows the shape of a right URL in the message.
    hint: &'static str,
}

impl Flaw {
    fn without_hint(problem: &'static str) -> Self {
        Self { problem, hint: "" }
    }
}

/// The other schemes, for messages.
const SCHEMES: &str =
    "rediss://, redis-cluster://, rediss-cluster://, redis-sentinel:// or rediss-sentinel://";

fn read_login(text: &str) -> Result<(Option<String>, Option<Secret>), Flaw> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let user = decode(user)?;
    let password = decode(password)?;
    Ok((user, password.map(Secret::new)))
}

/// The text without percent-encoding; `None` if it is empty.
fn decode(text: &str) -> Result<Option<String>, Flaw> {
    let decoded = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| Flaw::without_hint("has a user or password that is no UTF-8"))?;
    if decoded.is_empty() {
        Ok(None)
    } else {
        Ok(Some(decoded.into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(url: &str) -> Vec<String> {
        Address::parse(url)
            .unwrap()
            .hosts
            .iter()
            .map(Host::to_string)
            .collect()
    }

    #[test]
    fn every_layout_is_read() {
        let single = Address::parse("redis://us%65r:p%40ss%3Aword@h:1/3").unwrap();
        assert_eq!(
            (single.layout, single.tls, single.database),
            (Layout::Single, false, Some(3))
        );
        assert_eq!(single.user.as_deref(), Some("user"));
        assert_eq!(single.password, Some(Secret::new("p@ss:word")));
        let cluster = Address::parse("rediss-cluster://:p@a,b:7000,[::1]:7001").unwrap();
        assert_eq!(
            (cluster.layout, cluster.tls, cluster.user),
            (Layout::Cluster, true, None)
        );
        assert_eq!(
            hosts("rediss-cluster://:p@a,b:7000,[::1]:7001"),
            ["a:6379", "b:7000", "[::1]:7001"]
        );
        let sentinel = |url| Address::parse(url).unwrap().layout;
        assert_eq!(
            sentinel("redis-sentinel://a,b/main"),
            Layout::Sentinel("main".to_owned())
        );
        assert_eq!(
            sentinel("redis-sentinel://a"),
            Layout::Sentinel("mymaster".to_owned())
        );
        assert_eq!(hosts("redis-sentinel://a,b:1/main"), ["a:26379", "b:1"]);
    }

    #[test]
    fn urls_that_do_not_fit_their_layout_are_refused() {
        for bad in [
            "redis://a,b",
            "redis://",
            "redis://a/db",
            "redis-cluster://a/1",
            "redis-cluster://a,",
            "redis-cluster://a:0",
            "redis-sentinel://a/b/c",
            "redis+unix:///tmp/redis",
            "redis://%ff:x@h",
        ] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }
}
