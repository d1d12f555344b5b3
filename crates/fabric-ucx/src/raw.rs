//! UCP's objects as Rust values: a worker, its endpoints, and operations under way.
//!
//! The only file of the engine that calls UCP. Every value here belongs to one worker, and the
//! engine keeps worker, endpoints and operations behind one lock, so that no two threads are inside
//! UCP at a time: UCP needs no other thread safety.
//!
//! Left out: everything that the engine does not need, including UCP's own atomics.

use std::ffi::{CStr, c_uint, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use ucx_sys::*;

/// An error of UCP.
#[derive(Debug, Clone, Copy)]
pub struct Status {
    ucp: &'static Ucp,
    code: ucs_status_t,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        // SAFETY: returns a string that lives as long as the library, for any status.
        let text = unsafe { CStr::from_ptr(self.ucp.ucs_status_string(self.code)) };
        f.write_str(&text.to_string_lossy())
    }
}

fn check(ucp: &'static Ucp, code: ucs_status_t) -> Result<(), Status> {
    if code == UCS_OK { Ok(()) } else { Err(Status { ucp, code }) }
}

/// A receiver of messages.
pub trait MessageHandler: Sync + 'static {
    /// Handles a message of kind `id`; runs inside `Worker::progress`. `reply` answers the sender.
    fn handle(&self, id: u32, message: &[u8], reply: Option<Endpoint>);
}

/// Set when an endpoint fails.
#[derive(Debug)]
pub struct Failure {
    /// True if this endpoint has failed.
    pub broken: AtomicBool,
    /// True if any endpoint has failed since this was last cleared.
    pub any: &'static AtomicBool,
}

unsafe extern "C" fn failed(failure: *mut c_void, _: ucp_ep_h, _: ucs_status_t) {
    // SAFETY: passed to UCP by `Worker::connect`, and lives forever.
    let failure = unsafe { &*failure.cast::<Failure>() };
    failure.broken.store(true, Ordering::SeqCst);
    failure.any.store(true, Ordering::SeqCst);
}

/// The argument of the message callback.
struct HandlerArg<H: 'static> {
    ucp: &'static Ucp,
    handler: &'static H,
}

unsafe extern "C" fn handle<H: MessageHandler, const ID: u32>(
    arg: *mut c_void,
    header: *const c_void,
    len: usize,
    _: *mut c_void,
    _: usize,
    param: *const ucp_am_recv_param_t,
) -> ucs_status_t {
    // SAFETY: passed to UCP by `Worker::set_handler`, and lives forever.
    let arg = unsafe { &*arg.cast::<HandlerArg<H>>() };
    // SAFETY: UCP lends `len` bytes for this call.
    let message = unsafe { std::slice::from_raw_parts(header.cast::<u8>(), len) };
    // SAFETY: UCP lends it for this call.
    let param = unsafe { &*param };
    let answered = param.recv_attr & u64::from(UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
    let reply = answered.then_some(Endpoint { ucp: arg.ucp, at: param.reply_ep });
    arg.handler.handle(ID, message, reply);
    UCS_OK
}

/// A context and its one worker. Never freed: they live as long as the process.
#[derive(Debug)]
pub struct Worker {
    ucp: &'static Ucp,
    context: ucp_context_h,
    worker: ucp_worker_h,
}

// SAFETY: any thread may call UCP if no other thread is inside at the time
// (UCS_THREAD_MODE_SERIALIZED); the engine holds its lock for every call.
unsafe impl Send for Worker {}

impl Worker {
    /// Opens UCP for about `peers` endpoints.
    pub fn open(ucp: &'static Ucp, peers: usize) -> Result<Worker, Status> {
        let params = ucp_params {
            field_mask: u64::from(UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS),
            features: u64::from(UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP),
            estimated_num_eps: peers,
            ..Default::default()
        };
        let (mut config, mut context, mut worker) = (null_mut(), null_mut(), null_mut());
        // SAFETY: reads the environment into a new object, without a prefix or a file.
        check(ucp, unsafe { ucp.ucp_config_read(null(), null(), &mut config) })?;
        let (major, minor) = (UCP_API_MAJOR, UCP_API_MINOR);
        // SAFETY: both objects live during the call, and the version is that of the bindings.
        let opened = unsafe { ucp.ucp_init_version(major, minor, &params, config, &mut context) };
        // SAFETY: made above, and no longer used.
        unsafe { ucp.ucp_config_release(config) };
        check(ucp, opened)?;
        let params = ucp_worker_params {
            field_mask: u64::from(UCP_WORKER_PARAM_FIELD_THREAD_MODE),
            thread_mode: UCS_THREAD_MODE_SERIALIZED,
            ..Default::default()
        };
        // SAFETY: a context that was just made.
        check(ucp, unsafe { ucp.ucp_worker_create(context, &params, &mut worker) })?;
        Ok(Worker { ucp, context, worker })
    }

    /// Lets peers read and write `len` bytes at `at`, which stay mapped. Returns the key they need.
    pub fn expose(&self, at: *mut u8, len: usize) -> Result<Vec<u8>, Status> {
        let params = ucp_mem_map_params {
            field_mask: u64::from(
                UCP_MEM_MAP_PARAM_FIELD_ADDRESS
                    | UCP_MEM_MAP_PARAM_FIELD_LENGTH
                    | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
            ),
            address: at.cast(),
            length: len,
            flags: UCP_MEM_MAP_NONBLOCK, // the memory is sparse: registration must not populate it
            ..Default::default()
        };
        let (mut memory, mut key, mut bytes) = (null_mut(), null_mut(), 0);
        // SAFETY: a mapping of this process's segment, which is never unmapped.
        check(self.ucp, unsafe { self.ucp.ucp_mem_map(self.context, &params, &mut memory) })?;
        // SAFETY: memory of this context.
        check(self.ucp, unsafe {
            self.ucp.ucp_rkey_pack(self.context, memory, &mut key, &mut bytes)
        })?;
        // SAFETY: UCP returned that many bytes there.
        let packed = unsafe { std::slice::from_raw_parts(key.cast::<u8>(), bytes) }.to_vec();
        // SAFETY: returned by `ucp_rkey_pack`, and copied.
        unsafe { self.ucp.ucp_rkey_buffer_release(key) };
        Ok(packed)
    }

    /// Returns the address of this worker.
    pub fn address(&self) -> Result<Vec<u8>, Status> {
        let (mut address, mut bytes) = (null_mut(), 0);
        // SAFETY: a live worker.
        check(self.ucp, unsafe {
            self.ucp.ucp_worker_get_address(self.worker, &mut address, &mut bytes)
        })?;
        // SAFETY: UCP returned that many bytes there.
        let copy = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), bytes) }.to_vec();
        // SAFETY: returned by the call above, and copied.
        unsafe { self.ucp.ucp_worker_release_address(self.worker, address) };
        Ok(copy)
    }

    /// Returns a descriptor that is readable when an armed worker has something to do.
    pub fn descriptor(&self) -> Result<OwnedFd, Status> {
        let mut fd = -1;
        // SAFETY: a live worker with the wakeup feature.
        check(self.ucp, unsafe { self.ucp.ucp_worker_get_efd(self.worker, &mut fd) })?;
        // SAFETY: open as long as the worker; it is duplicated here.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
        fd.map_err(|_| Status { ucp: self.ucp, code: UCS_ERR_IO_ERROR })
    }

    /// Delivers messages of kind `ID` to `handler`.
    pub fn set_handler<H: MessageHandler, const ID: u32>(
        &self,
        handler: &'static H,
    ) -> Result<(), Status> {
        let arg: &'static HandlerArg<H> =
            Box::leak(Box::new(HandlerArg { ucp: self.ucp, handler }));
        let params = ucp_am_handler_param {
            field_mask: u64::from(
                UCP_AM_HANDLER_PARAM_FIELD_ID
                    | UCP_AM_HANDLER_PARAM_FIELD_FLAGS
                    | UCP_AM_HANDLER_PARAM_FIELD_CB
                    | UCP_AM_HANDLER_PARAM_FIELD_ARG,
            ),
            id: ID,
            flags: UCP_AM_FLAG_WHOLE_MSG,
            cb: Some(handle::<H, ID>),
            arg: std::ptr::from_ref(arg).cast_mut().cast(),
        };
        // SAFETY: the function receives the argument with its actual type, and it lives forever.
        check(self.ucp, unsafe { self.ucp.ucp_worker_set_am_recv_handler(self.worker, &params) })
    }

    /// Makes progress, once or until nothing is left to do. Returns true if there was something.
    pub fn progress(&self, all: bool) -> bool {
        let mut worked = false;
        // SAFETY: a live worker; the callbacks are this engine's, and may be called here.
        while unsafe { self.ucp.ucp_worker_progress(self.worker) } != 0 {
            worked = true;
            if !all {
                break;
            }
        }
        worked
    }

    /// Makes the descriptor readable for later events; returns false if an event is already
    /// pending.
    pub fn arm(&self) -> bool {
        // SAFETY: a live worker.
        unsafe { self.ucp.ucp_worker_arm(self.worker) == UCS_OK }
    }

    /// Wakes the thread that polls the descriptor.
    pub fn signal(&self) {
        // SAFETY: a live worker.
        let _ = unsafe { self.ucp.ucp_worker_signal(self.worker) };
    }

    /// Creates an endpoint to the worker at `address`. `failure` is set when it breaks.
    pub fn connect(&self, address: &[u8], failure: &'static Failure) -> Result<Endpoint, Status> {
        let params = ucp_ep_params {
            field_mask: u64::from(
                UCP_EP_PARAM_FIELD_REMOTE_ADDRESS
                    | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
                    | UCP_EP_PARAM_FIELD_ERR_HANDLER,
            ),
            address: address.as_ptr().cast(),
            err_mode: UCP_ERR_HANDLING_MODE_PEER,
            err_handler: ucp_err_handler {
                cb: Some(failed),
                arg: std::ptr::from_ref(failure).cast_mut().cast(),
            },
            ..Default::default()
        };
        let mut endpoint = null_mut();
        // SAFETY: the handler and its argument live forever; UCP copies the address.
        check(self.ucp, unsafe { self.ucp.ucp_ep_create(self.worker, &params, &mut endpoint) })?;
        Ok(Endpoint { ucp: self.ucp, at: endpoint })
    }
}

/// An endpoint: a connection to one worker, from this side.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint {
    ucp: &'static Ucp,
    at: ucp_ep_h,
}

// SAFETY: as for `Worker`.
unsafe impl Send for Endpoint {}

/// A key to a peer's memory, valid with its endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Key(ucp_rkey_h);

// SAFETY: as for `Worker`.
unsafe impl Send for Key {}

fn plain() -> ucp_request_param_t {
    ucp_request_param_t::default()
}

impl Endpoint {
    /// Unpacks a key that the peer packed.
    pub fn key(&self, packed: &[u8]) -> Result<Key, Status> {
        let mut key = null_mut();
        // SAFETY: a live endpoint; the bytes come from the peer's `ucp_rkey_pack`.
        check(self.ucp, unsafe {
            self.ucp.ucp_ep_rkey_unpack(self.at, packed.as_ptr().cast(), &mut key)
        })?;
        Ok(Key(key))
    }

    /// Starts a put.
    ///
    /// # Safety
    /// `from` must stay readable and unchanged until the operation is over.
    pub unsafe fn put(&self, from: *const u8, bytes: usize, to: u64, key: Key) -> Operation {
        let param = plain();
        // SAFETY: a live endpoint and its key; the caller guarantees the bytes.
        Operation::of(self.ucp, unsafe {
            self.ucp.ucp_put_nbx(self.at, from.cast(), bytes, to, key.0, &param)
        })
    }

    /// Starts a get.
    ///
    /// # Safety
    /// `into` must stay writable and unused until the operation is over.
    pub unsafe fn get(&self, into: *mut u8, bytes: usize, from: u64, key: Key) -> Operation {
        let param = plain();
        // SAFETY: as for `put`.
        Operation::of(self.ucp, unsafe {
            self.ucp.ucp_get_nbx(self.at, into.cast(), bytes, from, key.0, &param)
        })
    }

    /// Starts a flush, which is over when all earlier puts have arrived.
    pub fn flush(&self) -> Operation {
        let param = plain();
        // SAFETY: a live endpoint.
        Operation::of(self.ucp, unsafe { self.ucp.ucp_ep_flush_nbx(self.at, &param) })
    }

    /// Ends all operations of the endpoint with an error, and frees it.
    pub fn close(self, keys: &[Key]) -> Operation {
        for key in keys {
            // SAFETY: keys of this endpoint, no longer used.
            unsafe { self.ucp.ucp_rkey_destroy(key.0) };
        }
        let mut param = plain();
        (param.op_attr_mask, param.flags) = (UCP_OP_ATTR_FIELD_FLAGS, UCP_EP_CLOSE_FLAG_FORCE);
        // SAFETY: a live endpoint, no longer used.
        Operation::of(self.ucp, unsafe { self.ucp.ucp_ep_close_nbx(self.at, &param) })
    }

    /// Sends a message of kind `id`. With `answered`, the peer gets an endpoint to answer on.
    pub fn send(&self, id: u32, message: Vec<u8>, answered: bool) -> Result<(), Status> {
        let (at, len) = (message.as_ptr(), message.len());
        // Freed in `sent`, or below if that is not called.
        let kept = Box::into_raw(Box::new(Kept { ucp: self.ucp, message }));
        let mut param = plain();
        param.op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = if answered { UCP_AM_SEND_FLAG_REPLY } else { 0 };
        param.cb.send = Some(sent);
        param.user_data = kept.cast();
        // SAFETY: a live endpoint; the message lives until it is sent.
        let under_way = unsafe {
            self.ucp.ucp_am_send_nbx(self.at, id as c_uint, at.cast(), len, null(), 0, &param)
        };
        match Operation::of(self.ucp, under_way) {
            Operation::Open(_) => Ok(()), // `sent` frees it
            Operation::Over(result) => {
                // SAFETY: over at once, so `sent` is not called.
                drop(unsafe { Box::from_raw(kept) });
                result
            }
        }
    }
}

/// A message being sent.
struct Kept {
    ucp: &'static Ucp,
    #[allow(dead_code, reason = "UCP reads it")]
    message: Vec<u8>,
}

unsafe extern "C" fn sent(request: *mut c_void, _: ucs_status_t, kept: *mut c_void) {
    // SAFETY: made by `Endpoint::send` for this call only.
    let kept = unsafe { Box::from_raw(kept.cast::<Kept>()) };
    // SAFETY: the request is over, and nothing else refers to it.
    unsafe { kept.ucp.ucp_request_free(request) };
}

/// UCP's request.
#[derive(Debug, Clone, Copy)]
pub struct UcpRequest {
    ucp: &'static Ucp,
    at: *mut c_void,
}

// SAFETY: as for `Worker`: a request is only accessed with the engine's lock.
unsafe impl Send for UcpRequest {}

/// An operation that may be under way.
#[derive(Debug)]
pub enum Operation {
    /// Over, successfully or not.
    Over(Result<(), Status>),
    /// Under way.
    Open(UcpRequest),
}

impl Operation {
    fn of(ucp: &'static Ucp, at: ucs_status_ptr_t) -> Operation {
        // As in UCP's macros: null means done, the highest addresses are errors.
        match at as isize {
            0 => Operation::Over(Ok(())),
            code @ -100..0 => Operation::Over(Err(Status { ucp, code: code as ucs_status_t })),
            _ => Operation::Open(UcpRequest { ucp, at }),
        }
    }

    /// Returns the result if it is over. Called with the lock held, like everything here.
    pub fn result(&mut self) -> Option<Result<(), Status>> {
        if let Operation::Open(UcpRequest { ucp, at }) = *self {
            // SAFETY: a request of this operation that has not been freed.
            let status = unsafe { ucp.ucp_request_check_status(at) };
            if status == UCS_INPROGRESS {
                return None;
            }
            // SAFETY: over, and replaced below.
            unsafe { ucp.ucp_request_free(at) };
            *self = Operation::Over(check(ucp, status));
        }
        match self {
            Operation::Over(result) => Some(*result),
            Operation::Open(_) => None,
        }
    }
}
