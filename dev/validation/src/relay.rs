//! The data of the relay chain that a parachain's block gets.

use cumulus_primitives_core::{
    relay_chain::HeadData, relay_chain::UpgradeGoAhead, InboundDownwardMessage, ParaId,
    PersistedValidationData,
};
use cumulus_primitives_parachain_inherent::{
    MessageQueueChain, ParachainInherentData, INHERENT_IDENTIFIER,
};
use cumulus_test_relay_sproof_builder::RelayStateSproofBuilder;
use sp_core::H256;
use sp_inherents::InherentData;

/// The id of the parachain; that of the runtime.
const PARACHAIN: u32 = 2_000;
/// The parachains that it has a channel to.
pub(crate) const NEIGHBOURS: [u32; 3] = [2_001, 2_002, 2_003];

/// The relay chain, as far as it matters to one PoV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayState {
    /// The number of the relay parent.
    pub number: u32,
    /// Messages of the relay chain to the parachain.
    pub downward: Vec<Vec<u8>>,
    /// Whether the relay chain lets the parachain upgrade its runtime.
    pub go_ahead: bool,
}

impl Default for RelayState {
    fn default() -> Self {
        Self {
            number: 1,
            downward: Vec::new(),
            go_ahead: false,
        }
    }
}

impl RelayState {
    /// The inherent data of a block in a PoV on the head `parent_head`, and what the relay chain's
    /// validators compare it with: the storage root of the relay parent.
    pub(crate) fn inherent(&self, parent_head: &[u8], timestamp: u64) -> (InherentData, H256) {
        let mut queue = MessageQueueChain::default();
        let messages = self.downward.iter().map(|message| InboundDownwardMessage {
            sent_at: self.number,
            msg: message.clone(),
        });
        let messages: Vec<_> = messages.collect();
        for message in &messages {
            queue.extend_downward(message);
        }
        let mut builder = RelayStateSproofBuilder {
            para_id: ParaId::from(PARACHAIN),
            included_para_head: Some(HeadData(parent_head.to_vec())),
            dmq_mqc_head: (!messages.is_empty()).then(|| queue.head()),
            upgrade_go_ahead: self.go_ahead.then_some(UpgradeGoAhead::GoAhead),
            current_slot: u64::from(self.number).into(),
            ..RelayStateSproofBuilder::default()
        };
        builder.host_config.max_upward_message_num_per_candidate = 16;
        builder.host_config.hrmp_max_message_num_per_candidate = 16;
        for neighbour in NEIGHBOURS {
            let channel = builder.upsert_outbound_channel(ParaId::from(neighbour));
            channel.max_capacity = 8;
            channel.max_total_size = 1_024;
            channel.max_message_size = 256;
        }
        let (root, proof) = builder.into_state_root_and_proof();
        let data = ParachainInherentData {
            validation_data: PersistedValidationData {
                parent_head: HeadData(parent_head.to_vec()),
                relay_parent_number: self.number,
                relay_parent_storage_root: root,
                max_pov_size: 10 * 1024 * 1024,
            },
            relay_chain_state: proof,
            downward_messages: messages,
            horizontal_messages: Default::default(),
            relay_parent_descendants: Vec::new(),
            collator_peer_id: None,
        };
        let mut inherent = InherentData::new();
        // The two names differ.
        let put = inherent.put_data(INHERENT_IDENTIFIER, &data);
        let put = put.and_then(|()| inherent.put_data(*b"timstap0", &timestamp));
        put.expect("each kind of data is put once");
        (inherent, root)
    }
}
