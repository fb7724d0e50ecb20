//! The extensions that one call into the runtime sees.

use sp_externalities::{Error, Extension, Extensions, TransactionType};
use std::{
    any::{Any, TypeId},
    collections::BTreeSet,
};

/// The extensions that the runtime registers and deregisters during one call, both until the call ends.
#[derive(Default)]
pub struct RuntimeExtensions {
    registered: Extensions,
    /// Types of the host's extensions that the runtime deregistered.
    hidden: BTreeSet<TypeId>,
}

impl RuntimeExtensions {
    /// Whether the runtime sees an extension of this type.
    pub fn sees(&self, host: &Extensions, type_id: TypeId) -> bool {
        self.registered.is_registered(type_id) || self.sees_of_host(host, type_id)
    }

    /// Whether the runtime sees the host's extension of this type.
    pub fn sees_of_host(&self, host: &Extensions, type_id: TypeId) -> bool {
        host.is_registered(type_id) && !self.hidden.contains(&type_id)
    }

    /// The extension of this type that the runtime sees.
    pub fn get<'a>(
        &'a mut self,
        host: &'a mut Extensions,
        type_id: TypeId,
    ) -> Option<&'a mut dyn Any> {
        if self.sees_of_host(host, type_id) {
            host.get_mut(type_id)
        } else {
            self.registered.get_mut(type_id)
        }
    }

    /// Registers an extension until the call ends.
    ///
    /// # Errors
    /// [`Error::ExtensionAlreadyRegistered`] if the runtime sees an extension of this type.
    pub fn register(
        &mut self,
        host: &Extensions,
        type_id: TypeId,
        extension: Box<dyn Extension>,
    ) -> Result<(), Error> {
        if self.sees(host, type_id) {
            return Err(Error::ExtensionAlreadyRegistered);
        }
        self.registered.register_with_type_id(type_id, extension)
    }

    /// Deregisters an extension. An extension of the host is only hidden, until the call ends.
    ///
    /// # Errors
    /// [`Error::ExtensionIsNotRegistered`] if the runtime sees no extension of this type.
    pub fn deregister(&mut self, host: &Extensions, type_id: TypeId) -> Result<(), Error> {
        let was_hosts = host.is_registered(type_id) && self.hidden.insert(type_id);
        if was_hosts || self.registered.deregister(type_id) {
            Ok(())
        } else {
            Err(Error::ExtensionIsNotRegistered(type_id))
        }
    }

    /// Tells the extensions that the runtime sees that the runtime opened a transaction.
    pub fn start(&mut self, host: &mut Extensions) {
        let runtime = TransactionType::Runtime;
        self.each(host, |extension| extension.start_transaction(runtime));
    }

    /// Tells the extensions that the runtime sees that the runtime committed a transaction.
    pub fn commit(&mut self, host: &mut Extensions) {
        let runtime = TransactionType::Runtime;
        self.each(host, |extension| extension.commit_transaction(runtime));
    }

    /// Tells the extensions that the runtime sees that the runtime rolled back a transaction.
    pub fn roll_back(&mut self, host: &mut Extensions) {
        let runtime = TransactionType::Runtime;
        self.each(host, |extension| extension.rollback_transaction(runtime));
    }

    fn each(&mut self, host: &mut Extensions, tell: impl Fn(&mut dyn Extension)) {
        let seen = host.iter_mut().filter(|(id, _)| !self.hidden.contains(id));
        seen.for_each(|(_, extension)| tell(extension));
        let own = self.registered.iter_mut();
        own.for_each(|(_, extension)| tell(extension));
    }
}
