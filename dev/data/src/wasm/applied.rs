//! What a runtime answers when it applies an extrinsic.

use codec::Decode;
use sp_runtime::{
    transaction_validity::{InvalidTransaction, TransactionValidityError},
    ApplyExtrinsicResult,
};

/// The answer of `BlockBuilder_apply_extrinsic`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Applied {
    /// The extrinsic is in the block, and its call succeeded.
    Succeeded,
    /// The extrinsic is in the block, but its call failed with this error.
    CallFailed(String),
    /// The extrinsic is not in the block, because it has no room for it.
    Full,
    /// The extrinsic is not in the block, for this reason.
    Refused(String),
}

impl Applied {
    /// Reads an encoded answer. If its types are of another version, the error is its bytes in hexadecimal.
    pub(super) fn decode(answer: &[u8]) -> Self {
        const FULL: TransactionValidityError =
            TransactionValidityError::Invalid(InvalidTransaction::ExhaustsResources);
        let hex = || format!("0x{}", hex::encode(answer));
        match ApplyExtrinsicResult::decode(&mut &answer[..]) {
            Ok(Ok(Ok(()))) => Self::Succeeded,
            Ok(Ok(Err(error))) => Self::CallFailed(format!("{error:?}")),
            Ok(Err(FULL)) => Self::Full,
            Ok(Err(error)) => Self::Refused(format!("{error:?}")),
            // Other versions of these types encode the same first two bytes.
            Err(_) => match answer {
                [0, 0, ..] => Self::Succeeded,
                [0, ..] => Self::CallFailed(hex()),
                _ => Self::Refused(hex()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::Encode;
    use sp_runtime::DispatchError;

    #[test]
    fn answers_are_told_in_words() {
        let invalid = |error: InvalidTransaction| TransactionValidityError::Invalid(error);
        let answers: [ApplyExtrinsicResult; 4] = [
            Ok(Ok(())),
            Ok(Err(DispatchError::BadOrigin)),
            Err(invalid(InvalidTransaction::ExhaustsResources)),
            Err(invalid(InvalidTransaction::BadProof)),
        ];
        let expected = [
            Applied::Succeeded,
            Applied::CallFailed("BadOrigin".to_owned()),
            Applied::Full,
            Applied::Refused("Invalid(BadProof)".to_owned()),
        ];
        let found = answers.map(|answer| Applied::decode(&answer.encode()));
        assert_eq!(found, expected);
    }

    #[test]
    fn answers_of_other_versions_are_bytes() {
        for (answer, expected) in [
            (
                &[0, 1, 0xff][..],
                Applied::CallFailed("0x0001ff".to_owned()),
            ),
            (&[1, 0xff], Applied::Refused("0x01ff".to_owned())),
            (&[], Applied::Refused("0x".to_owned())),
        ] {
            assert_eq!(Applied::decode(answer), expected);
        }
    }
}
