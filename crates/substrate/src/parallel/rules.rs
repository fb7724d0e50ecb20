//! Rules for the storage items that many transactions of a block change.

use super::numbers::{Form, TOTALS};
use codec::{Decode, DecodeAll};
use povmeter_parallel::CounterWidth;
use sp_crypto_hashing::twox_128;

/// What a runtime does with a storage item, said by someone who knows the runtime.
///
/// A [`predicted`](Self::predicted) rule is a guess: if it is wrong, transactions are executed again. A rule
/// for a counter is a promise: a read that the runtime uses only to write a sum is not compared at the
/// transaction's turn. All other reads are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRule {
    pub(crate) form: Form,
    pub(crate) kind: Kind,
    /// The most that the totals of a counter may be.
    pub(crate) limits: [u128; TOTALS],
    /// Prefixes of keys: a write to such a key may show the counter's number.
    pub(crate) shown_by: Vec<[u8; 32]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Read and written like any value, and predicted: a transaction usually adds this number.
    Predicted(u8),
    /// Added to.
    Counter {
        /// Other calls may be made between a read and the write of the sum.
        apart: bool,
    },
}

impl ItemRule {
    /// A number that each transaction increases by one and may use for anything, such as the index of the
    /// extrinsic.
    pub const fn predicted(width: CounterWidth) -> Self {
        Self::of(Form::Plain(width), Kind::Predicted(1))
    }

    /// As [`Self::predicted`], for the field of variant `variant` of an enum.
    pub const fn predicted_in_variant(variant: u8, width: CounterWidth) -> Self {
        Self::of(Form::Variant(variant, width), Kind::Predicted(1))
    }

    /// A counter. The rule promises: if the runtime reads the item and its next call of the host writes the
    /// item, it writes the number read plus a number that does not depend on it; and the number read has no
    /// other effect, as long as the sum fits into the counter. An absent item counts as the number 0.
    ///
    /// A sum that is 0, the greatest number of the counter, or a limit may have been cut off there. So the number read is
    /// compared then.
    ///
    /// If another call follows the read, the rule promises nothing. Host functions that only compute, such as hashes,
    /// do not reach the externalities, so they are not such calls: the promise covers the use of their results.
    pub const fn counter(width: CounterWidth) -> Self {
        Self::of(Form::Plain(width), Kind::Counter { apart: false })
    }

    /// The weight of the block, by class. The rule promises what [`Self::counter`] promises, as long as the
    /// sums over all classes are at most `time` and `proof_size`; and that a transaction takes from a number no more
    /// than it has added itself. A number that is 0 and stays 0 is not compared, because most classes have no extrinsics.
    pub fn weights(time: u64, proof_size: u64) -> Self {
        let mut rule = Self::of(Form::Weights, Kind::Counter { apart: false });
        rule.limits = [u128::from(time), u128::from(proof_size)];
        rule
    }

    /// Extends the promise of a counter: between the read and the write, the runtime may make other calls,
    /// except reads of the same key.
    #[must_use]
    pub const fn apart(mut self) -> Self {
        if let Kind::Counter { .. } = self.kind {
            self.kind = Kind::Counter { apart: true };
        }
        self
    }

    /// Restricts the promise to sums of at most `most`.
    #[must_use]
    pub fn at_most(mut self, most: u128) -> Self {
        self.limits[0] = self.limits[0].min(most);
        self
    }

    /// Restricts the promise to transactions that do not write `item` of `pallet` after the read. In others,
    /// the number read is compared.
    #[must_use]
    pub fn unless_written(mut self, pallet: &str, item: &str) -> Self {
        self.shown_by.push(item_prefix(pallet, item));
        self
    }

    const fn of(form: Form, kind: Kind) -> Self {
        Self {
            form,
            kind,
            limits: [u128::MAX; TOTALS],
            shown_by: Vec::new(),
        }
    }

    /// Whether values are predicted. Weights are not, because they differ from transaction to transaction.
    pub(crate) fn is_predicted(&self) -> bool {
        self.form != Form::Weights
    }
}

/// The limits of a block, above which the frame-system pallet refuses extrinsics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// The most time that the extrinsics of any class, and of all classes together, may use.
    pub time: u64,
    /// The most proof size that these extrinsics may have.
    pub proof_size: u64,
    /// The most bytes that these extrinsics may have.
    pub length: u32,
}

/// Why limits could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an encoded `{expected}`, found {found} bytes of something else")]
#[non_exhaustive]
pub struct LimitsError {
    /// The type of the constant.
    pub expected: &'static str,
    /// Bytes found.
    pub found: usize,
}

/// A weight: time and proof size.
type Weight = (codec::Compact<u64>, codec::Compact<u64>);
/// Of a class: the base of an extrinsic, the maximum of one, the maximum of all, the reserve.
type ClassWeights = (Weight, Option<Weight>, Option<Weight>, Option<Weight>);
/// The base of a block, the maximum of a block, and the weights of each class.
type BlockWeights = (Weight, Weight, [ClassWeights; 3]);

impl FrameLimits {
    /// Reads the limits from a runtime's metadata: the values of the constants `BlockWeights` and
    /// `BlockLength` of its pallet `System`.
    ///
    /// A runtime may compute `BlockWeights` from its state, as with `MaxParachainBlockWeight` of
    /// cumulus-pallet-parachain-system. Then the metadata has the limits of one state only, and the smallest limits that
    /// any block can have must be given instead: the runtime must refuse nothing within them.
    ///
    /// # Errors
    /// [`LimitsError`] if a value is not the encoding of its constant. What follows the maximum of each class in
    /// `BlockLength`, as in newer runtimes, is ignored.
    pub fn of_constants(block_weights: &[u8], block_length: &[u8]) -> Result<Self, LimitsError> {
        let wrong = |expected, value: &[u8]| LimitsError {
            expected,
            found: value.len(),
        };
        let weights = BlockWeights::decode_all(&mut &*block_weights);
        let (_, most, classes) = weights.map_err(|_| wrong("BlockWeights", block_weights))?;
        let lengths = <[u32; 3]>::decode(&mut &*block_length);
        let lengths = lengths.map_err(|_| wrong("BlockLength", block_length))?;
        let of_classes = classes.iter().filter_map(|(_, _, most, _)| *most);
        let (time, proof_size) = of_classes.fold((most.0 .0, most.1 .0), |least, most| {
            (least.0.min(most.0 .0), least.1.min(most.1 .0))
        });
        Ok(Self {
            time,
            proof_size,
            length: lengths.into_iter().min().unwrap_or_default(),
        })
    }
}

/// Rules for storage items, by key. A key without a rule has the right values, but makes execution slower if
/// all transactions change it.
#[derive(Clone, Debug, Default)]
pub struct StorageRules {
    /// The last bytes of the keys, a fast check, because most look-ups are for keys without a rule.
    ends: Vec<u64>,
    rules: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    key: Box<[u8]>,
    rule: ItemRule,
}

/// The last bytes of `key`.
fn end_of(key: &[u8]) -> u64 {
    key.last_chunk().copied().map_or(0, u64::from_le_bytes)
}

impl StorageRules {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Rules for a runtime whose pallets `System` and `Balances` are frame-system 49 and pallet-balances 51,
    /// with these limits:
    ///
    /// | item | rule |
    /// |---|---|
    /// | `:extrinsic_index` | predicted |
    /// | `System::ExecutionPhase` | predicted, in the variant for an extrinsic |
    /// | `System::EventCount` | a counter, unless `System::EventTopics` is written, which shows an event's number |
    /// | `System::BlockSize` | a counter, apart, up to the limit |
    /// | `System::BlockWeight` | weights, apart, up to the limits |
    /// | `Balances::TotalIssuance` | a counter |
    ///
    /// If another pallet of the runtime breaks the promise of one of these counters, leave the counter out
    /// with [`Self::without`]. An extension such as `DynamicMaxBlockWeight` of cumulus-pallet-parachain-system, which looks
    /// at `System::BlockWeight` in each extrinsic, breaks nothing, because the weight is compared; but then extrinsics
    /// depend on each other, and executing them ahead gains nothing.
    pub fn of_frame(limits: &FrameLimits) -> Self {
        const U32: CounterWidth = CounterWidth::U32;
        let events = ItemRule::counter(U32).unless_written("System", "EventTopics");
        let size = ItemRule::counter(U32).apart();
        let weight = ItemRule::weights(limits.time, limits.proof_size).apart();
        Self::new()
            .with_key(b":extrinsic_index", ItemRule::predicted(U32))
            .with(
                "System",
                "ExecutionPhase",
                ItemRule::predicted_in_variant(0, U32),
            )
            .with("System", "EventCount", events)
            .with("System", "BlockSize", size.at_most(limits.length.into()))
            .with("System", "BlockWeight", weight)
            .with(
                "Balances",
                "TotalIssuance",
                ItemRule::counter(CounterWidth::U128),
            )
    }

    /// Adds `rule` for the value `item` of `pallet`, in place of an earlier rule.
    #[must_use]
    pub fn with(self, pallet: &str, item: &str, rule: ItemRule) -> Self {
        self.with_key(&item_prefix(pallet, item), rule)
    }

    /// Removes the rule for the value `item` of `pallet`, if there is one.
    #[must_use]
    pub fn without(mut self, pallet: &str, item: &str) -> Self {
        self.remove(&item_prefix(pallet, item));
        self
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(number) = self.find(key) {
            self.ends.remove(number);
            self.rules.remove(number);
        }
    }

    /// Adds `rule` for the value at `key`, in place of an earlier rule.
    #[must_use]
    pub fn with_key(mut self, key: &[u8], rule: ItemRule) -> Self {
        self.remove(key);
        self.ends.push(end_of(key));
        self.rules.push(Entry {
            key: key.into(),
            rule,
        });
        self
    }

    /// The number of the rule for `key`.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let end = end_of(key);
        let mut ends = self.ends.iter().enumerate();
        let found = ends.find(|(number, of)| **of == end && *self.rules[*number].key == *key);
        found.map(|(number, _)| number)
    }

    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(crate) fn rule(&self, number: usize) -> &ItemRule {
        &self.rules[number].rule
    }

    pub(crate) fn key(&self, number: usize) -> &[u8] {
        &self.rules[number].key
    }

    /// The numbers of the rules for counters that a write to `key` may show.
    pub(crate) fn shown_by<'r>(&'r self, key: &'r [u8]) -> impl Iterator<Item = usize> + 'r {
        let shows = |prefixes: &[[u8; 32]]| prefixes.iter().any(|prefix| key.starts_with(prefix));
        let rules = self.rules.iter().enumerate();
        rules.filter_map(move |(number, entry)| shows(&entry.rule.shown_by).then_some(number))
    }
}

/// The prefix of the keys of `item` of `pallet`; for a single value, its key.
fn item_prefix(pallet: &str, item: &str) -> [u8; 32] {
    let mut prefix = [0; 32];
    prefix[..16].copy_from_slice(&twox_128(pallet.as_bytes()));
    prefix[16..].copy_from_slice(&twox_128(item.as_bytes()));
    prefix
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use codec::{Compact, Encode};

    #[test]
    fn limits_are_the_smallest_of_all_classes() {
        let weight = |time: u64, size: u64| (Compact(time), Compact(size));
        let class = |most: Option<(u64, u64)>| {
            let most = most.map(|(time, size)| weight(time, size));
            (weight(1, 1), Some(weight(1, 1)), most, Some(weight(0, 0)))
        };
        let classes = [class(Some((70, 50))), class(Some((60, 90))), class(None)];
        let weights = (weight(5, 5), weight(100, 80), classes).encode();
        let lengths = ([30_u32, 20, 40], Some(1_u32)).encode();
        let limits = FrameLimits {
            time: 60,
            proof_size: 50,
            length: 20,
        };
        assert_eq!(FrameLimits::of_constants(&weights, &lengths), Ok(limits));
        assert!(FrameLimits::of_constants(&weights[1..2], &lengths).is_err());
        assert!(FrameLimits::of_constants(&weights, &lengths[..7]).is_err());
    }

    #[test]
    fn keys_are_those_of_the_names() {
        let limits = FrameLimits {
            time: 1,
            proof_size: 1,
            length: 1,
        };
        let rules = StorageRules::of_frame(&limits);
        assert_eq!(rules.find(b":extrinsic_index"), Some(0));
        // From the metadata of any FRAME runtime.
        let event_count = "26aa394eea5630e07c48ae0c9558cef70a98fdbe9ce6c55837576c60c7af3850";
        let key: Vec<u8> = (0..32)
            .map(|at| u8::from_str_radix(&event_count[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        assert_eq!(rules.find(&key), Some(2));
        assert_eq!(rules.without("System", "EventCount").find(&key), None);
    }
}
