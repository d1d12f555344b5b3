//! The definition of families of C functions, each written once.
//!
//! `family!` takes, for each family, the set of types, the pieces of the symbol around the type
//! name, the Rust signature and the body. It defines every exported function, with its `p` twin for
//! profiling and, if requested, its context form; and it keeps its input as data ([`Family`]), from
//! which `emit.rs` writes the headers. Inside a body `T` is the element type, `NAME` the symbol
//! (for messages) and the name given before the context prefix is the context.
//!
//! ```text
//! RMA "shmem_" "_put" ctx("shmem_ctx_") [generic "shmem_put"] (dest: Sym<T>, pe: int) { .. }
//!  |     |       |         |                |                      the prototype, and the body
//!  set   +- T between -+   prefix of the context form, note
//! ```
//!
//! Invariants: a parameter type has an entry in `emit.rs`'s table of C spellings, or the header
//! cannot be written. A family has a rule for local rollback (`core/replay/routine.rs`), or it does
//! not compile. Left out: entries that need machine code (`longdouble.rs` describes them with
//! `describe!` and defines them itself).

/// One family, as data.
pub struct Family {
    /// The heading of the specification's table.
    pub section: &'static str,
    /// The name of its set in `types.rs`.
    pub set: &'static str,
    /// The symbol before the type name.
    pub pre: &'static str,
    /// The symbol after it.
    pub post: &'static str,
    /// The symbol before the type name in the context form, or empty.
    pub ctx: &'static str,
    /// `generic`: the C11 name; `deprecated`: since when; `header`: which one, if not `shmem.h`.
    pub notes: &'static [(&'static str, &'static str)],
    /// Parameter names and Rust types.
    pub args: &'static [(&'static str, &'static str)],
    /// The Rust type returned; empty for none.
    pub ret: &'static str,
}

impl Family {
    /// Returns the value of a note.
    pub fn note(&self, key: &str) -> Option<&'static str> {
        self.notes.iter().find(|note| note.0 == key).map(|note| note.1)
    }
}

/// Defines the list of families as data.
macro_rules! describe {
    ($list:ident: $section:literal; $(
        $set:ident $pre:literal $post:literal $($ctx:ident($cpre:literal))?
        $([$key:ident $value:literal])* ($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;
    )*) => {
        /// These families, for the headers.
        pub(super) const $list: &[$crate::capi::family::Family] = &[$(
            $crate::capi::family::Family {
                section: $section,
                set: stringify!($set),
                pre: $pre,
                post: $post,
                ctx: concat!($($cpre)?),
                notes: &[$((stringify!($key), $value)),*],
                args: &[$((stringify!($arg), stringify!($ty))),*],
                ret: concat!($(stringify!($ret))?),
            },
        )*];
        $(const _: () = assert!(
            raidshmem_core::replay::routine::rule($pre, $post).is_some(),
            concat!("no rule in the table of core/replay/routine.rs: ", $pre, "..", $post)
        );)*
    };
}

/// Describes and defines families; the module's head shows the grammar.
macro_rules! family {
    ($list:ident: $section:literal; $(
        $set:ident $pre:literal $post:literal $($ctx:ident($cpre:literal))?
        $([$key:ident $value:literal])* ($($arg:ident: $ty:ty),*) $(-> $ret:ty)? $body:block
    )*) => {
        describe! { $list: $section; $(
            $set $pre $post $($ctx($cpre))? $([$key $value])* ($($arg: $ty),*) $(-> $ret)?;
        )* }
        $(over! {
            export, { $pre $post ($($ctx($cpre))?) ($($arg: $ty),*) ($($ret)?) $body }, $set
        })*
    };
}

/// Defines one family over the rows of its set.
macro_rules! export {
    ({ $pre:literal $post:literal $ctx:tt $args:tt $ret:tt $body:block };
     $($name:literal $rust:ident),*) => {
        $(export_one! { $pre $name $post $rust $ctx $args $ret $body })*
    };
}

/// Defines one symbol with its twin, or the four of a family with contexts.
///
/// The twin does not call the symbol, because a profiler may have replaced it.
macro_rules! export_one {
    ($pre:literal $name:literal $post:literal $rust:ident ()
     ($($arg:ident: $ty:ty),*) ($($ret:ty)?) $body:block) => {
        const _: () = {
            #[allow(dead_code, reason = "not every family has an element type")]
            type T = $crate::capi::types::$rust;
            #[allow(dead_code, reason = "not every body has something to complain about")]
            const NAME: &str = concat!($pre, $name, $post);
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "the specification's")]
            fn body($($arg: $ty),*) $(-> $ret)? {
                const LOGGED: bool = raidshmem_core::replay::routine::is_covered($pre, $post);
                if !LOGGED {
                    $crate::openshmem::memory::logged::unlogged(NAME);
                }
                $body
            }
            #[unsafe(export_name = concat!($pre, $name, $post))]
            extern "C" fn entry($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
            #[unsafe(export_name = concat!("p", $pre, $name, $post))]
            extern "C" fn twin($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
        };
    };
    ($pre:literal $name:literal $post:literal $rust:ident ($ctx:ident($cpre:literal))
     ($($arg:ident: $ty:ty),*) $ret:tt $body:block) => {
        export_one! { $pre $name $post $rust () ($($arg: $ty),*) $ret {
            let $ctx = $crate::openshmem::context::Ctx::DEFAULT;
            $body
        } }
        export_one! { $cpre $name $post $rust ()
            ($ctx: $crate::openshmem::context::Ctx, $($arg: $ty),*) $ret {
            let _using = $ctx.begin(NAME);
            $body
        } }
    };
}
