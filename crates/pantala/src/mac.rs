//! An Ethernet address in JSON.

use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An Ethernet address that travels over the admin API, as the string `02:00:00:00:00:01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub wire::ether::Mac);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(de::Error::custom)
    }
}

#[cfg(feature = "admin")]
impl schemars::JsonSchema for Mac {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Mac".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "An Ethernet address.",
            "pattern": "^[0-9a-f]{2}(:[0-9a-f]{2}){5}$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mac = Mac(wire::ether::Mac([2, 0, 0xab, 0, 0, 1]));
        let text = serde_json::to_string(&mac).unwrap();
        assert_eq!(text, "\"02:00:ab:00:00:01\"");
        assert_eq!(serde_json::from_str::<Mac>(&text).unwrap(), mac);
        assert!(serde_json::from_str::<Mac>("\"02:00\"").is_err());
    }
}
