//! Writes `ucx-sys/src/bindings.rs` and `rdma-sys/src/bindings/` from the system's headers, cut to
//! what the engines use; with `--check` compares them instead.
//!
//! libibverbs structures contain C library mutexes, whose size depends on the processor, so each
//! processor has its own file. UCX structures have one layout on all processors.
//!
//! Only this program needs libclang and the C library's headers for each processor (Debian's
//! `libc6-dev-arm64-cross`): `tests/bindings.rs` compares the committed layouts with the headers
//! through a C compiler (`bindings/layout.rs`).
//!
//! usage: cargo run --manifest-path bindings/Cargo.toml [-- --check]

use std::path::Path;
use std::process::ExitCode;

use bindgen::callbacks::{EnumVariantCustomBehavior, EnumVariantValue, ParseCallbacks};
use bindgen::{Builder, EnumVariation, RustTarget};

/// Versions of UCX and libibverbs that the committed files were generated from, as reported by
/// pkg-config.
const MADE_FROM: &str = "1.13.1 1.14.44.0";

const UCX_FUNCTIONS: &[&str] = &[
    "ucp_config_read",
    "ucp_config_release",
    "ucp_get_version",
    "ucp_init_version",
    "ucp_worker_create",
    "ucp_worker_get_address",
    "ucp_worker_release_address",
    "ucp_worker_get_efd",
    "ucp_worker_arm",
    "ucp_worker_progress",
    "ucp_worker_signal",
    "ucp_worker_set_am_recv_handler",
    "ucp_ep_create",
    "ucp_ep_close_nbx",
    "ucp_ep_flush_nbx",
    "ucp_ep_rkey_unpack",
    "ucp_rkey_destroy",
    "ucp_rkey_pack",
    "ucp_rkey_buffer_release",
    "ucp_mem_map",
    "ucp_put_nbx",
    "ucp_get_nbx",
    "ucp_am_send_nbx",
    "ucp_request_check_status",
    "ucp_request_free",
    "ucs_status_string",
];

const UCX_CONSTANTS: &[&str] = &[
    "UCP_AM_FLAG_WHOLE_MSG",
    "UCP_AM_HANDLER_PARAM_FIELD_ARG",
    "UCP_AM_HANDLER_PARAM_FIELD_CB",
    "UCP_AM_HANDLER_PARAM_FIELD_FLAGS",
    "UCP_AM_HANDLER_PARAM_FIELD_ID",
    "UCP_AM_RECV_ATTR_FIELD_REPLY_EP",
    "UCP_AM_SEND_FLAG_REPLY",
    "UCP_API_MAJOR",
    "UCP_API_MINOR",
    "UCP_EP_CLOSE_FLAG_FORCE",
    "UCP_EP_PARAM_FIELD_ERR_HANDLER",
    "UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE",
    "UCP_EP_PARAM_FIELD_REMOTE_ADDRESS",
    "UCP_ERR_HANDLING_MODE_PEER",
    "UCP_FEATURE_AM",
    "UCP_FEATURE_RMA",
    "UCP_FEATURE_WAKEUP",
    "UCP_MEM_MAP_NONBLOCK",
    "UCP_MEM_MAP_PARAM_FIELD_ADDRESS",
    "UCP_MEM_MAP_PARAM_FIELD_FLAGS",
    "UCP_MEM_MAP_PARAM_FIELD_LENGTH",
    "UCP_OP_ATTR_FIELD_CALLBACK",
    "UCP_OP_ATTR_FIELD_FLAGS",
    "UCP_OP_ATTR_FIELD_USER_DATA",
    "UCP_PARAM_FIELD_ESTIMATED_NUM_EPS",
    "UCP_PARAM_FIELD_FEATURES",
    "UCP_WORKER_PARAM_FIELD_THREAD_MODE",
    "UCS_ERR_IO_ERROR",
    "UCS_INPROGRESS",
    "UCS_OK",
    "UCS_THREAD_MODE_SERIALIZED",
];

/// The enumerations that contain these values.
const UCX_ENUMERATIONS: &str = "ucp_(am_cb_flags|am_handler_param_field|am_recv_attr_t|feature|\
     ep_close_flags_t|ep_params_field|mem_map_params_field|op_attr_t|params_field|send_am_flags|\
     worker_params_field)";

/// Keeps only the values of UCX's enumerations that are used: some others differ between versions.
#[derive(Debug)]
struct Used;

impl ParseCallbacks for Used {
    fn enum_variant_behavior(
        &self,
        _: Option<&str>,
        name: &str,
        _: EnumVariantValue,
    ) -> Option<EnumVariantCustomBehavior> {
        (!UCX_CONSTANTS.contains(&name)).then_some(EnumVariantCustomBehavior::Hide)
    }
}

const VERBS_FUNCTIONS: &[&str] = &[
    "ibv_ack_cq_events",
    "ibv_alloc_pd",
    "ibv_close_device",
    "ibv_create_ah",
    "ibv_create_comp_channel",
    "ibv_create_cq",
    "ibv_create_qp",
    "ibv_create_srq",
    "ibv_dealloc_pd",
    "ibv_dereg_mr",
    "ibv_destroy_ah",
    "ibv_destroy_comp_channel",
    "ibv_destroy_cq",
    "ibv_destroy_qp",
    "ibv_destroy_srq",
    "ibv_free_device_list",
    "ibv_get_cq_event",
    "ibv_get_device_list",
    "ibv_get_device_name",
    "ibv_modify_qp",
    "ibv_open_device",
    "ibv_query_device",
    "ibv_query_gid",
    "ibv_query_port",
    "ibv_reg_mr",
];

/// Sets of bits, generated as separate types.
const VERBS_BITS: &[&str] = &["ibv_access_flags", "ibv_qp_attr_mask", "ibv_send_flags"];
/// Named numbers.
const VERBS_NUMBERS: &[&str] = &[
    "ibv_atomic_cap",
    "ibv_port_state",
    "ibv_qp_state",
    "ibv_qp_type",
    "ibv_wc_opcode",
    "ibv_wc_status",
    "ibv_wr_opcode",
];
/// Types that `rdma-sys/src/types.rs` defines by hand, like upstream.
const VERBS_BY_HAND: &[&str] =
    &["ibv_ah_attr", "ibv_gid", "ibv_global_route", "ibv_mw_bind_info", "ibv_send_wr", "ibv_wc"];

/// Processors with bindings, by their names in Rust and GNU.
const PROCESSORS: &[&str] = &["x86_64", "aarch64"];

/// Returns a builder with the settings common to all bindings.
fn builder(header: &str, processor: &str) -> Builder {
    let libc = match processor == std::env::consts::ARCH {
        true => "/usr/include".to_string(),
        false => format!("/usr/{processor}-linux-gnu/include"),
    };
    Builder::default()
        .clang_args([&format!("--target={processor}-linux-gnu"), "-isystem", &libc])
        .header_contents("headers.h", header)
        .generate_comments(false)
        .layout_tests(true)
        .dynamic_link_require_all(true)
        .prepend_enum_name(false)
        .rust_target(RustTarget::stable(85, 0).expect("a released Rust"))
}

fn ucx(processor: &str) -> Builder {
    let b = builder("#include <ucp/api/ucp.h>", processor).derive_default(true);
    let b = b.default_enum_style(EnumVariation::Consts).dynamic_library_name("Ucp");
    let names = [UCX_FUNCTIONS, UCX_CONSTANTS].concat();
    let b = b.allowlist_type(UCX_ENUMERATIONS);
    names.iter().fold(b, |b, name| b.allowlist_item(name)).parse_callbacks(Box::new(Used))
}

fn verbs(processor: &str) -> Builder {
    let b = builder("#include <infiniband/verbs.h>", processor).derive_debug(false);
    let b = b.dynamic_library_name("Ibverbs");
    let b = b.allowlist_type("ibv_port_attr").allowlist_type("ibv_recv_wr");
    let b = b.opaque_type("pthread_.*").opaque_type("ibv_device").opaque_type("ibv_mw(_bind)?");
    let b = VERBS_FUNCTIONS.iter().fold(b, |b, name| b.allowlist_function(name));
    let b = VERBS_BITS.iter().fold(b, |b, name| b.allowlist_type(name).bitfield_enum(name));
    let numbers = |b: Builder, name: &&str| b.allowlist_type(name).constified_enum_module(name);
    let b = VERBS_NUMBERS.iter().fold(b, numbers);
    let parts = |b: Builder, name: &&str| b.blocklist_type(format!("{name}(__bindgen_ty.*)?"));
    VERBS_BY_HAND.iter().fold(b, parts)
}

/// Returns the text of one file of bindings.
fn printed(builder: Builder) -> String {
    let printed = builder.generate().expect("libclang reads the headers").to_string();
    // The version of bindgen does not belong in the file.
    let (_, printed) = printed.split_once('\n').expect("a first line with bindgen's version");
    format!("// Written by `bindings/`; not edited by hand.\n{printed}")
}

/// Returns each file's path and expected text.
fn files() -> Vec<(String, String)> {
    let texts: Vec<String> = PROCESSORS.iter().map(|processor| printed(ucx(processor))).collect();
    assert!(texts.windows(2).all(|two| two[0] == two[1]), "UCX differs between processors");
    let ucx = texts.into_iter().map(|text| ("ucx-sys/src/bindings.rs".to_string(), text));
    let verbs = PROCESSORS.iter().map(|processor| {
        (format!("rdma-sys/src/bindings/{processor}.rs"), printed(verbs(processor)))
    });
    ucx.take(1).chain(verbs).collect()
}

fn main() -> ExitCode {
    let check = std::env::args().nth(1).is_some_and(|word| word == "--check");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut stale = false;
    if !check {
        eprintln!("bindings: say in src/main.rs what they are from now (was: {MADE_FROM})");
    }
    for (name, wanted) in files() {
        let file = root.join(&name);
        if !check {
            std::fs::write(&file, wanted).expect("the crate's folder can be written");
        } else if std::fs::read_to_string(&file).ok() != Some(wanted) {
            eprintln!("{name} is not what the headers here say");
            stale = true;
        }
    }
    ExitCode::from(u8::from(stale))
}
