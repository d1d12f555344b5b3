//! The interfaces that libfabric offers on this machine, and its errors.

use std::ffi::{CStr, c_int};
use std::ptr::{null, null_mut};

use ofi_sys::*;

/// An error of libfabric.
#[derive(Debug, Clone, Copy)]
pub struct Status {
    api: &'static Libfabric,
    code: c_int,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        // SAFETY: returns a string that lives as long as the library, for any number.
        let text = unsafe { CStr::from_ptr((self.api.fi_strerror)(self.code.abs())) };
        f.write_str(&text.to_string_lossy())
    }
}

/// Returns an error unless the code is that of success.
pub fn check(api: &'static Libfabric, code: c_int) -> Result<(), Status> {
    if code == FI_SUCCESS { Ok(()) } else { Err(Status { api, code }) }
}

/// The interfaces that the library offers.
pub struct Offers {
    api: &'static Libfabric,
    first: *mut fi_info,
}

impl Offers {
    /// Asks for endpoints with reliable messages and transfers.
    pub fn ask(api: &'static Libfabric) -> Result<Offers, Status> {
        // SAFETY: without an argument it makes an object with all its parts, or returns null.
        let hints = unsafe { (api.fi_dupinfo)(null()) };
        if hints.is_null() {
            return Err(Status { api, code: FI_ENOMEM });
        }
        let modes =
            FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
        let mut first = null_mut();
        // SAFETY: made above with all its parts, whose fields are numbers; freed below once.
        let found = unsafe {
            (*hints).caps = FI_MSG | FI_RMA;
            (*hints).mode = FI_CONTEXT | FI_CONTEXT2;
            (*(*hints).ep_attr).type_ = FI_EP_RDM;
            (*(*hints).domain_attr).mr_mode = modes;
            (*(*hints).domain_attr).resource_mgmt = FI_RM_ENABLED;
            (*(*hints).tx_attr).op_flags = FI_DELIVERY_COMPLETE;
            (*(*hints).tx_attr).msg_order = FI_ORDER_SAS;
            (*(*hints).rx_attr).msg_order = FI_ORDER_SAS;
            let found = (api.fi_getinfo)(VERSION, null(), null(), 0, hints, &mut first);
            (api.fi_freeinfo)(hints);
            found
        };
        match found {
            code if code == -FI_ENODATA => Ok(Offers { api, first: null_mut() }),
            code => check(api, code).map(|()| Offers { api, first }),
        }
    }

    /// Returns the offers with the names of their providers.
    pub fn list(&self) -> Vec<(*mut fi_info, String)> {
        let mut found = Vec::new();
        let mut at = self.first;
        while !at.is_null() {
            // SAFETY: an offer of a list that lives as long as this value, with all its parts.
            let (next, name) = unsafe { ((*at).next, (*(*at).fabric_attr).prov_name) };
            if !name.is_null() {
                // SAFETY: a string of that offer.
                let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
                found.push((at, name));
            }
            at = next;
        }
        found
    }
}

impl Drop for Offers {
    fn drop(&mut self) {
        if !self.first.is_null() {
            // SAFETY: made by `fi_getinfo`, and not used any more.
            unsafe { (self.api.fi_freeinfo)(self.first) };
        }
    }
}

/// Returns the names of the providers that could be used on this machine.
pub fn providers(api: &'static Libfabric) -> Result<Vec<String>, Status> {
    Ok(Offers::ask(api)?.list().into_iter().map(|(_, name)| name).collect())
}
