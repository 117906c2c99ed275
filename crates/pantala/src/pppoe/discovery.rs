//! Discovery packets of a client (RFC 2516 §5): what it sends, and what it takes of answers.

use wire::Mac;
use wire::pppoe::{Header, Tags, View, code, tag};

/// Bytes of a tag of the access concentrator that are sent back, or kept of a text.
const VALUE_MAX: usize = 512;
/// Characters of a text of the peer that are shown.
const TEXT_MAX: usize = 120;

/// The service and access concentrator that a client looks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// A service; any if it is empty.
    pub(crate) service: String,
    /// The name of an access concentrator; any if `None`.
    pub(crate) ac: Option<String>,
    /// The largest payload, if it is above 1492 (RFC 4638).
    pub(crate) max_payload: Option<u16>,
}

/// An access concentrator that offers the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) mac: Mac,
    pub(crate) name: String,
    /// Tags that it, and a relay, want to see again.
    returned: Vec<(u16, Vec<u8>)>,
}

/// A question of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) wanted: Wanted,
    /// By which answers are found.
    pub(crate) host_uniq: [u8; 8],
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A session of this number, and the largest payload that was agreed on.
    Session(u16, Option<u16>),
    /// There is none.
    Refused(String),
}

impl Question {
    /// Looks for access concentrators.
    pub(crate) fn padi(&self) -> Vec<u8> {
        packet(code::PADI, 0, &self.tags())
    }

    /// Asks one of them for a session.
    pub(crate) fn padr(&self, offer: &Offer) -> Vec<u8> {
        let returned = offer.returned.iter().flat_map(|(kind, value)| one(*kind, value));
        packet(code::PADR, 0, &[self.tags(), returned.collect()].concat())
    }

    fn tags(&self) -> Vec<u8> {
        let payload = self.wanted.max_payload.map(|most| one(tag::PPP_MAX_PAYLOAD, &most.to_be_bytes()));
        [
            one(tag::SERVICE_NAME, self.wanted.service.as_bytes()),
            one(tag::HOST_UNIQ, &self.host_uniq),
            payload.unwrap_or_default(),
        ]
        .concat()
    }

    fn is_answered_by(&self, tags: Tags<'_>) -> bool {
        tags.get(tag::HOST_UNIQ) == Some(&self.host_uniq)
    }

    /// Reads an offer; `None` if it is not one for this question.
    ///
    /// # Errors
    /// The text of an error that it has.
    //= https://www.rfc-editor.org/rfc/rfc2516#section-5.2
    pub(crate) fn offer(&self, from: Mac, pado: &View<'_>) -> Result<Option<Offer>, String> {
        let Ok(tags) = pado.tags() else { return Ok(None) };
        if pado.session != 0 || !self.is_answered_by(tags) {
            return Ok(None);
        }
        if let Some(error) = tags.error() {
            return Err(error_text(error));
        }
        let Some(name) = tags.get(tag::AC_NAME) else { return Ok(None) };
        let wanted = self.wanted.service.as_bytes();
        let has_service = tags.iter().any(|(kind, value)| kind == tag::SERVICE_NAME && value == wanted);
        let has_name = self.wanted.ac.as_ref().is_none_or(|wanted| wanted.as_bytes() == name);
        let is_returned = |kind: u16| matches!(kind, tag::AC_COOKIE | tag::RELAY_SESSION_ID);
        let returned = tags.iter().filter(|(kind, value)| is_returned(*kind) && value.len() <= VALUE_MAX);
        let returned: Vec<_> = returned.map(|(kind, value)| (kind, value.to_vec())).collect();
        let fits = returned.iter().map(|(_, value)| value.len()).sum::<usize>() <= 2 * VALUE_MAX;
        Ok((has_service && has_name && fits).then(|| Offer { mac: from, name: text(name), returned }))
    }

    /// Reads the answer to a request; `None` if it is not one to this question.
    //= https://www.rfc-editor.org/rfc/rfc2516#section-5.4
    pub(crate) fn answer(&self, pads: &View<'_>) -> Option<Answer> {
        let tags = pads.tags().ok().filter(|tags| self.is_answered_by(*tags))?;
        if let Some(error) = tags.error() {
            return Some(Answer::Refused(error_text(error)));
        }
        if pads.session == 0 {
            return Some(Answer::Refused("refused by the access concentrator".to_owned()));
        }
        let payload = tags.get(tag::PPP_MAX_PAYLOAD).and_then(|value| <[u8; 2]>::try_from(value).ok());
        let payload = payload.map(u16::from_be_bytes).filter(|most| Some(*most) == self.wanted.max_payload);
        Some(Answer::Session(pads.session, payload))
    }
}

/// Ends a session.
pub(crate) fn padt(session: u16) -> Vec<u8> {
    packet(code::PADT, session, &[])
}

/// A frame of a session.
pub(crate) fn session_frame(session: u16, protocol: u16, payload: &[u8]) -> Vec<u8> {
    packet(code::SESSION, session, &[&protocol.to_be_bytes(), payload].concat())
}

fn error_text((kind, value): (u16, &[u8])) -> String {
    let what = match kind {
        tag::SERVICE_NAME_ERROR => "service not available",
        tag::AC_SYSTEM_ERROR => "failure of the access concentrator",
        _ => "error of the access concentrator",
    };
    let says = text(value);
    if says.is_empty() { what.to_owned() } else { format!("{what}: {says}") }
}

/// A text of the peer, as it can be shown.
pub(crate) fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|letter| !letter.is_control()).take(TEXT_MAX).collect()
}

fn packet(code: u8, session: u16, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    [&Header { code, session, len }.to_bytes()[..], payload].concat()
}

fn one(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
    [&kind.to_be_bytes()[..], &len.to_be_bytes(), value].concat()
}
