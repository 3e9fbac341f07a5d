//! Forms, and the adapter of nginx-rtmp, which sends them.

use reqwest::Url;

use crate::base::media_event::{MediaEvent, StreamNews, StreamSession};
use crate::features::media::fields::{LONGEST, Unreadable, event, named, read_credential};

/// The fields in their order, which a publisher's own arguments follow.
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Unreadable> {
        let text = std::str::from_utf8(body).map_err(|_| Unreadable::NotAForm)?;
        if !text.contains('=') {
            return Err(Unreadable::NotAForm);
        }
        let fields = form_urlencoded::parse(text.trim().as_bytes());
        Ok(Self(fields.into_owned().collect()))
    }

    /// A field of the server's own.
    ///
    /// # Errors
    /// It is there twice. nginx escapes no `&` in what a publisher sends, so a publisher can write
    /// any field before and behind those of nginx.
    fn own(&self, name: &'static str) -> Result<Option<&str>, Unreadable> {
        self.field(name, name)
    }

    /// The same for a field whose name the settings say under this key.
    pub(crate) fn field(&self, key: &'static str, name: &str) -> Result<Option<&str>, Unreadable> {
        let mut found = None;
        for (known, value) in &self.0 {
            if known != name {
                continue;
            }
            if found.is_some() {
                return Err(Unreadable::Twice(key));
            }
            found = Some(value.as_str());
        }
        Ok(found)
    }
}

/// `on_publish`, `on_publish_done`, `on_update`. A refused second publisher has a `publish_done`
/// too, with the name of the stream that goes on; only `clientid` tells the two apart. Every nginx
/// counts it from 1, so the addresses at both ends of the connection belong to the session.
pub(crate) fn nginx_rtmp(body: &[u8]) -> Result<Option<MediaEvent>, Unreadable> {
    let form = Form::parse(body)?;
    let news = match form.own("call")? {
        Some("publish") => StreamNews::Publish,
        Some("update_publish") => StreamNews::Alive,
        Some("publish_done") => StreamNews::Done,
        _ => return Ok(None),
    };
    let client = named("clientid", form.own("clientid")?)?;
    let stream = named("name", form.own("name")?)?;
    let address = form.own("addr")?;
    let session = match address {
        Some(address) => format!("{client} {address}"),
        None => client.to_owned(),
    };
    named("clientid", Some(&session))?;
    let mut event = event(StreamSession::Reused(session), stream, news);
    event.address = address.map(str::to_owned);
    event.instance = host(form.own("tcurl")?);
    event.asks = news == StreamNews::Publish;
    event.app = form.own("app")?.map(str::to_owned);
    for (name, value) in &form.0 {
        read_credential(&mut event, name, value);
    }
    Ok(Some(event))
}

/// The host and the port of the URL to which a publisher connected. The rest of it may hold a token.
fn host(url: Option<&str>) -> Option<String> {
    let url = Url::parse(url?).ok()?;
    let host = url.host_str().filter(|host| host.len() <= LONGEST)?;
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}
