//! What a PoV's blocks leave for the relay chain.

use alloc::vec::Vec;
use cumulus_pallet_parachain_system::{
    validate_block::scheduling::SchedulingSignals, Config, CustomValidationHeadData,
    HrmpOutboundMessages, HrmpWatermark, NewValidationCode, ProcessedDownwardMessages,
    UpwardMessages,
};
use cumulus_primitives_core::{
    relay_chain::{BlockNumber, UMP_SEPARATOR},
    SignedSchedulingInfo,
};
use polkadot_parachain_primitives::primitives::{
    HeadData, HorizontalMessages, UpwardMessages as Upward, ValidationResult,
};

/// The messages of the blocks executed so far.
#[derive(Default)]
pub(crate) struct Messages {
    upward: Upward,
    /// The signals of the blocks to the relay chain's scheduler.
    signals: Vec<Vec<u8>>,
    horizontal: HorizontalMessages,
    processed_downward: u32,
    hrmp_watermark: BlockNumber,
    new_code: Option<Vec<u8>>,
}

impl Messages {
    /// Adds the messages that the block left in its state.
    ///
    /// # Panics
    /// If the PoV has more messages than the relay chain accepts.
    pub(crate) fn collect<C: Config>(&mut self) {
        let code = NewValidationCode::<C>::get();
        self.new_code = self.new_code.take().or(code);
        let mut messages = UpwardMessages::<C>::get().into_iter();
        for message in messages
            .by_ref()
            .take_while(|message| *message != UMP_SEPARATOR)
        {
            self.upward
                .try_push(message)
                .expect("the PoV has too many upward messages");
        }
        self.signals
            .extend(messages.filter(|message| *message != UMP_SEPARATOR));
        self.processed_downward += ProcessedDownwardMessages::<C>::get();
        self.horizontal
            .try_extend(HrmpOutboundMessages::<C>::get().into_iter())
            .expect("the PoV has too many horizontal messages");
        self.hrmp_watermark = HrmpWatermark::<C>::get();
    }

    /// The result of the PoV, whose last block has this head data. A signed choice of cores replaces the
    /// signals of the blocks.
    ///
    /// # Panics
    /// If there are more signals than the relay chain accepts.
    pub(crate) fn into_result(
        self,
        head_data: Vec<u8>,
        signed: Option<&SignedSchedulingInfo>,
    ) -> ValidationResult {
        let Self {
            mut upward,
            signals,
            mut horizontal,
            processed_downward,
            hrmp_watermark,
            new_code,
        } = self;
        match signed {
            Some(signed) => SchedulingSignals::from_scheduling_info(signed, &mut upward),
            None => SchedulingSignals::from_block_signals(&signals, &mut upward),
        }
        horizontal.sort_by(|a, b| a.recipient.cmp(&b.recipient));
        ValidationResult {
            head_data: HeadData(head_data),
            new_validation_code: new_code.map(Into::into),
            upward_messages: upward,
            processed_downward_messages: processed_downward,
            horizontal_messages: horizontal,
            hrmp_watermark,
        }
    }
}

/// The head data of the last block: its header, unless the runtime replaced it.
pub(crate) fn head_data<C: Config>(header: Vec<u8>) -> Vec<u8> {
    CustomValidationHeadData::<C>::get().unwrap_or(header)
}
