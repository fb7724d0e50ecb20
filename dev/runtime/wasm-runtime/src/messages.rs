//! The acts of a parachain besides its extrinsics: messages, upgrades, questions for the proof
//! size.
//!
//! A pre-runtime item of the digest with the id [`ENGINE`] holds a list of acts. Everyone who executes the
//! block, its author included, performs them after the inherents.

use crate::runtime::{ParachainSystem, Runtime};
use alloc::vec::Vec;
use codec::{Decode, DecodeAll, Encode};
use cumulus_primitives_core::{ChannelStatus, GetChannelInfo, ParaId, XcmpMessageSource};
use cumulus_primitives_proof_size_hostfunction::storage_proof_size as first_version;
use frame_support::{storage::unhashed, traits::PostInherents};
use povmeter_proof_size::storage_proof_size as second_version;
use sp_runtime::ConsensusEngineId;

/// The id of digest items that hold acts, encoded as a list.
const ENGINE: ConsensusEngineId = *b"ACTS";
/// The key of the messages to other parachains that wait to be sent.
const OUTBOX: &[u8] = b":outbox";

/// One act of a parachain.
#[derive(Debug, Encode, Decode)]
pub enum Act {
    /// Sends a message to the relay chain.
    SendUp(Vec<u8>),
    /// Sends a message to another parachain.
    SendTo(u32, Vec<u8>),
    /// Schedules a new code of the runtime.
    Upgrade(Vec<u8>),
    /// Replaces the head data that the relay chain gets.
    Head(Vec<u8>),
    /// Asks for the proof size by the first version of the host function, and writes it at the key.
    Size(Vec<u8>),
    /// Asks for the proof size by the second version of the host function, and writes it at the key.
    RootedSize(Vec<u8>),
}

/// Performs the acts of the block's digest.
pub struct MessagesOfDigest;

impl PostInherents for MessagesOfDigest {
    fn post_inherents() {
        let digest = frame_system::Pallet::<Runtime>::digest();
        for item in digest.logs() {
            if let Some((ENGINE, acts)) = item.as_pre_runtime() {
                let acts = Vec::<Act>::decode_all(&mut &acts[..]);
                acts.expect("a list of acts").into_iter().for_each(perform);
            }
        }
    }
}

/// Performs one act. An act that the pallet refuses has no effect.
fn perform(act: Act) {
    match act {
        Act::SendUp(message) => drop(ParachainSystem::send_upward_message(message)),
        Act::SendTo(recipient, message) => {
            let mut outbox = outbox();
            outbox.push((ParaId::from(recipient), message));
            unhashed::put(OUTBOX, &outbox);
        }
        Act::Upgrade(code) => drop(ParachainSystem::schedule_code_upgrade(code)),
        Act::Head(data) => ParachainSystem::set_custom_validation_head_data(data),
        Act::Size(key) => unhashed::put(&key, &first_version::storage_proof_size()),
        Act::RootedSize(key) => unhashed::put(&key, &second_version::storage_proof_size()),
    }
}

fn outbox() -> Vec<(ParaId, Vec<u8>)> {
    unhashed::get(OUTBOX).unwrap_or_default()
}

/// Sends the messages of the outbox for which the channels have room, one to each recipient.
pub struct Outbox;

impl XcmpMessageSource for Outbox {
    fn take_outbound_messages(
        maximum_channels: usize,
        excluded_recipients: &[ParaId],
    ) -> Vec<(ParaId, Vec<u8>)> {
        let mut taken: Vec<(ParaId, Vec<u8>)> = Vec::new();
        let mut kept = Vec::new();
        let all = outbox();
        let waiting = all.len();
        for (recipient, message) in all {
            let has_room = match ParachainSystem::get_channel_status(recipient) {
                ChannelStatus::Ready(now, _) => message.len() <= now,
                ChannelStatus::Closed | ChannelStatus::Full => false,
            };
            let is_served = excluded_recipients.contains(&recipient)
                || taken.iter().any(|(other, _)| *other == recipient);
            if has_room && !is_served && taken.len() < maximum_channels {
                taken.push((recipient, message));
            } else {
                kept.push((recipient, message));
            }
        }
        if kept.len() < waiting {
            unhashed::put(OUTBOX, &kept);
        }
        taken
    }
}
