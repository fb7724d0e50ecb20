//! A call into the runtime.

use crate::{
    backend::Backend, ext::Ext, overlayed_changes::OverlayedChanges, Error, StateMachineStats,
};
use hash_db::Hasher;
use sp_core::{
    hexdisplay::HexDisplay,
    traits::{CallContext, CodeExecutor, RuntimeCode},
};
use sp_externalities::Extensions;

/// Calls a function of the runtime on a backend, with the changes going to an overlay.
pub struct StateMachine<'a, B: Backend<H>, H: Hasher, Exec> {
    backend: &'a B,
    overlay: &'a mut OverlayedChanges<H>,
    exec: &'a Exec,
    method: &'a str,
    call_data: &'a [u8],
    extensions: &'a mut Extensions,
    runtime_code: &'a RuntimeCode<'a>,
    context: CallContext,
    /// The parent block, for traces.
    parent_hash: Option<H::Out>,
}

impl<B: Backend<H>, H: Hasher, Exec> Drop for StateMachine<'_, B, H, Exec> {
    fn drop(&mut self) {
        self.backend
            .register_overlay_stats(&StateMachineStats::default());
    }
}

impl<'a, B, H, Exec> StateMachine<'a, B, H, Exec>
where
    H: Hasher,
    H::Out: Ord + 'static + codec::Codec,
    Exec: CodeExecutor + Clone + 'static,
    B: Backend<H>,
{
    /// A call of `method` with `call_data`, its encoded arguments.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        backend: &'a B,
        overlay: &'a mut OverlayedChanges<H>,
        exec: &'a Exec,
        method: &'a str,
        call_data: &'a [u8],
        extensions: &'a mut Extensions,
        runtime_code: &'a RuntimeCode<'_>,
        context: CallContext,
    ) -> Self {
        Self {
            backend,
            overlay,
            exec,
            method,
            call_data,
            extensions,
            runtime_code,
            context,
            parent_hash: None,
        }
    }

    /// Names the parent block in traces.
    #[must_use]
    pub fn set_parent_hash(mut self, parent_hash: H::Out) -> Self {
        self.parent_hash = Some(parent_hash);
        self
    }

    /// Calls the function, and returns its encoded result. The changes are in the overlay.
    ///
    /// # Errors
    /// The error of the executor. Changes that the runtime made outside of its own transactions stay.
    ///
    /// # Panics
    /// If the runtime has control of the overlay already.
    pub fn execute(&mut self) -> Result<Vec<u8>, Box<dyn Error>> {
        let entered = self.overlay.enter_runtime();
        entered.expect("only the host makes a state machine");
        let mut ext = Ext::new(self.overlay, self.backend, Some(self.extensions));
        let id = ext.id.to_le_bytes();
        let parent = match &self.parent_hash {
            Some(hash) => format!("{hash:?}"),
            None => "None".to_owned(),
        };
        tracing::trace!(
            target: "state",
            ext_id = %HexDisplay::from(&id),
            method = %self.method,
            parent_hash = %parent,
            input = ?HexDisplay::from(&self.call_data),
            "Call",
        );
        let result = self.exec.call(
            &mut ext,
            self.runtime_code,
            self.method,
            self.call_data,
            self.context,
        );
        let result = result.0;
        let left = self.overlay.exit_runtime();
        left.expect("the runtime can't leave itself");
        tracing::trace!(target: "state", ext_id = %HexDisplay::from(&id), ?result, "Return");
        result.map_err(|error| Box::new(error) as Box<dyn Error>)
    }
}
