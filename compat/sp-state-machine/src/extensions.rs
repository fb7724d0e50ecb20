//! The extensions that one call into the runtime sees.

use povmeter_substrate::RuntimeExtensions;
use sp_externalities::{Error, Extension, Extensions};
use std::any::{Any, TypeId};

/// The host's extensions, and those that the runtime registers during the call, which end with the call.
pub(crate) struct CallExtensions<'a> {
    host: &'a mut Extensions,
    runtime: RuntimeExtensions,
}

impl<'a> CallExtensions<'a> {
    pub(crate) fn new(host: &'a mut Extensions) -> Self {
        Self {
            host,
            runtime: RuntimeExtensions::default(),
        }
    }

    pub(crate) fn sees(&self, type_id: TypeId) -> bool {
        self.runtime.sees(self.host, type_id)
    }

    pub(crate) fn get_mut(&mut self, type_id: TypeId) -> Option<&mut dyn Any> {
        self.runtime.get(self.host, type_id)
    }

    pub(crate) fn register(
        &mut self,
        type_id: TypeId,
        extension: Box<dyn Extension>,
    ) -> Result<(), Error> {
        self.runtime.register(self.host, type_id, extension)
    }

    pub(crate) fn deregister(&mut self, type_id: TypeId) -> Result<(), Error> {
        self.runtime.deregister(self.host, type_id)
    }

    pub(crate) fn start_transaction(&mut self) {
        self.runtime.start(self.host);
    }

    pub(crate) fn commit_transaction(&mut self) {
        self.runtime.commit(self.host);
    }

    pub(crate) fn rollback_transaction(&mut self) {
        self.runtime.roll_back(self.host);
    }
}
