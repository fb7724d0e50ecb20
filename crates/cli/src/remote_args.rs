//! Options that name a running chain and its blocks.

use crate::error::CliError;
use clap::Args;
use povmeter_remote::{BlockId, DiskCache, NodeUrl, RemoteNode, RpcOptions, UrlError};
use std::{
    convert::Infallible, env, iter, num::IntErrorKind, ops::RangeInclusive, path::PathBuf,
    str::FromStr, time::Duration,
};

/// A node of a running chain.
#[derive(Args, Clone, Debug)]
pub(crate) struct RemoteArgs {
    /// Node of a running chain, ws://HOST:PORT
    #[arg(long, value_name = "URL")]
    url: Option<UrlArg>,
    /// Folder that caches its answers: docs/remote.md
    #[arg(long, value_name = "DIR", requires = "url")]
    cache: Option<PathBuf>,
    /// Request settings, as in timeout=60,in-flight=2
    #[arg(long, value_name = "SETTINGS", requires = "url")]
    rpc: Option<RpcArg>,
}

/// An address, or why it is none. Clap would print the whole text of a wrong one, which can hold a secret.
#[derive(Clone, Debug)]
struct UrlArg(Result<NodeUrl, UrlError>);

impl FromStr for UrlArg {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.parse()))
    }
}

impl RemoteArgs {
    /// The address; `None` if no option names one.
    ///
    /// # Errors
    /// [`CliError::Url`] if it is none of a node.
    pub(crate) fn url(&self) -> Result<Option<&NodeUrl>, CliError> {
        let url = self.url.as_ref().map(|url| url.0.as_ref());
        url.transpose()
            .map_err(|error| CliError::Url(error.clone()))
    }

    /// The node with its cache; `None` if no option names one.
    ///
    /// # Errors
    /// [`CliError::Url`], [`CliError::NoCacheFolder`] if no folder is known, or an error if the cache can't be used.
    pub(crate) fn node(&self) -> Result<Option<RemoteNode>, CliError> {
        let Some(url) = self.url()? else {
            return Ok(None);
        };
        let folder = self.cache.clone().or_else(default_cache);
        let folder = folder.ok_or(CliError::NoCacheFolder)?;
        let cache = DiskCache::open(&folder).map_err(povmeter_remote::RemoteError::from)?;
        let options = self.rpc.map_or_else(RpcOptions::default, |arg| arg.0);
        Ok(Some(
            RemoteNode::new(url.clone(), options).with_cache(cache),
        ))
    }
}

/// The folder for the cache if no option names one.
fn default_cache() -> Option<PathBuf> {
    // An empty variable counts as none.
    let folder = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let of_home = |below: &str| folder("HOME").map(|home| home.join(below));
    let caches = folder("XDG_CACHE_HOME").or_else(|| {
        if cfg!(windows) {
            folder("LOCALAPPDATA")
        } else if cfg!(target_os = "macos") {
            of_home("Library/Caches")
        } else {
            of_home(".cache")
        }
    });
    caches.map(|caches| caches.join("povmeter"))
}

/// Settings for requests to a node.
#[derive(Clone, Copy, Debug)]
struct RpcArg(RpcOptions);

impl FromStr for RpcArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut options = RpcOptions::default();
        for setting in text.split(',') {
            let (name, value) = setting
                .split_once('=')
                .ok_or_else(|| format!("expected NAME=NUMBER, found `{setting}`"))?;
            let number = || {
                let number = value
                    .parse::<u32>()
                    .ok()
                    .filter(|number| (1..=10_000).contains(number));
                number
                    .ok_or_else(|| format!("expected 1 to 10000 after `{name}=`, found `{value}`"))
            };
            match name {
                "timeout" => options.timeout = Duration::from_secs(number()?.into()),
                "attempts" => options.attempts = number()?,
                "in-flight" => options.in_flight = number()? as usize,
                "keys" => options.keys = number()? as usize,
                _ => {
                    return Err(format!(
                        "expected `timeout`, `attempts`, `in-flight` or `keys`, found `{name}`"
                    ))
                }
            }
        }
        Ok(Self(options))
    }
}

/// A range of block numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockRange(pub(crate) RangeInclusive<u64>);

/// The largest block number, because chains number their blocks with 32 bits.
const MOST_NUMBER: u64 = u32::MAX as u64;

impl FromStr for BlockRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ends = text.split_once("..").and_then(|(first, last)| {
            // Numbers that are too large are refused below.
            let number = |text: &str| match text.parse::<u64>() {
                Err(error) if *error.kind() == IntErrorKind::PosOverflow => Ok(u64::MAX),
                parsed => parsed,
            };
            Some((number(first).ok()?, number(last).ok()?))
        });
        let (first, last) = ends
            .ok_or_else(|| "expected the first and the last number, as in 100..199".to_owned())?;
        if last > MOST_NUMBER {
            return Err(format!("expected block numbers up to {MOST_NUMBER}"));
        }
        if first == 0 {
            return Err(
                "expected a first block above the genesis block, which is not executed".to_owned(),
            );
        }
        if first > last {
            return Err(format!(
                "expected a first block not above the last, found {first} above {last}"
            ));
        }
        Ok(Self(first..=last))
    }
}

/// The blocks that are asked for, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BlockIds {
    One(BlockId),
    Range(BlockRange),
}

impl BlockIds {
    /// Returns the blocks that `--block` or `--blocks` names, or the last finalized block without either option.
    pub(crate) fn of(block: Option<BlockId>, range: Option<&BlockRange>) -> Self {
        match range {
            Some(range) => Self::Range(range.clone()),
            None => Self::One(block.unwrap_or(BlockId::Finalized)),
        }
    }

    /// Returns the number of blocks.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Range(BlockRange(range)) => {
                let others = usize::try_from(range.end() - range.start());
                others.unwrap_or(usize::MAX).saturating_add(1)
            }
        }
    }

    pub(crate) fn into_iter(self) -> Box<dyn Iterator<Item = BlockId>> {
        match self {
            Self::One(id) => Box::new(iter::once(id)),
            Self::Range(BlockRange(range)) => Box::new(range.map(BlockId::Number)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_both_ends() {
        let range = "5..7".parse::<BlockRange>().unwrap();
        assert_eq!(range.0, 5..=7);
        let ids = BlockIds::of(None, Some(&range));
        assert_eq!(ids.len(), 3);
        assert!(ids.into_iter().eq([5, 6, 7].map(BlockId::Number)));
        let last = BlockIds::of(None, None);
        assert_eq!((last.len(), last), (1, BlockIds::One(BlockId::Finalized)));
        let all = format!("1..{}", u32::MAX).parse::<BlockRange>().unwrap();
        assert_eq!(BlockIds::Range(all).len(), u32::MAX as usize);
        let (usage, order) = ("the first and the last number", "not above the last");
        for (text, part) in [
            ("5", usage),
            ("..7", usage),
            ("5..", usage),
            ("a..b", usage),
            ("5..=7", usage),
            ("-1..7", usage),
            ("7..5", order),
            ("0..3", "genesis"),
            ("0..0", "genesis"),
            ("5..4294967296", "up to 4294967295"),
            ("5..18446744073709551615", "up to 4294967295"),
            ("5..99999999999999999999", "up to 4294967295"),
        ] {
            let error = text.parse::<BlockRange>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn settings_have_names() {
        let arg: RpcArg = "timeout=3,attempts=1,in-flight=2,keys=7".parse().unwrap();
        let RpcOptions {
            attempts,
            in_flight,
            keys,
            ..
        } = arg.0;
        assert_eq!((attempts, in_flight, keys), (1, 2, 7));
        assert_eq!(arg.0.timeout, Duration::from_secs(3));
        for text in [
            "",
            "timeout",
            "timeout=0",
            "timeout=x",
            "speed=3",
            "keys=-1",
            "keys=99999",
        ] {
            assert!(text.parse::<RpcArg>().is_err(), "{text}");
        }
    }
}
