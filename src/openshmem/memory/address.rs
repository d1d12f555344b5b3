//! Addresses as a call is given them: claims, which nothing is read or written by yet.
//!
//! [`In`] and [`Out`] are buffers of the caller, [`Sym`] and [`SymIn`] objects that every PE has.
//! A claim to a buffer is an argument of a C call, which has the shape of its pointer, or is made
//! of what the caller keeps borrowed, or of symmetric memory of this PE. So to hold one is to be
//! inside a call whose caller owes what the specification asks of the argument. A symmetric claim
//! owes nothing: it is checked where it becomes a place (`place.rs`).
//!
//! Not here: how a C call reads its lists and texts (`capi/claims.rs`).

macro_rules! claims {
    ($($(#[$doc:meta])* $name:ident($pointer:ty);)*) => {
        $($(#[$doc])*
        #[repr(transparent)]
        pub struct $name<T>(pub(super) $pointer);

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        impl<T> $name<T> {
            /// The same claim, in bytes.
            #[inline]
            pub fn erase(self) -> $name<u8> {
                $name(self.0.cast())
            }

            /// The address, for checks and messages.
            #[inline]
            pub fn addr(self) -> usize {
                self.0.addr()
            }
        })*
    };
}

claims! {
    /// A buffer of the caller that may be read.
    In(*const T);
    /// A buffer of the caller that may be written.
    Out(*mut T);
    /// A symmetric object: the caller's own address of it.
    Sym(*mut T);
    /// A symmetric object that is only read.
    SymIn(*const T);
}

impl<T> Out<T> {
    /// A place of the safe API, which keeps it borrowed until the operation is over.
    #[inline]
    pub fn at(place: &mut T) -> Out<T> {
        Out(place)
    }

    /// Elements that the library keeps borrowed until the operation is over.
    pub fn of(places: &mut [T]) -> Out<T> {
        Out(places.as_mut_ptr())
    }

    /// Writes one value; a null pointer is left alone.
    #[inline]
    pub fn write(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, and the maker of the claim owes a writable object here.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// The place of element `index`.
    pub fn element(self, index: usize) -> Out<T> {
        Out(self.0.wrapping_add(index))
    }

    /// The pointer itself, for calls that keep it.
    #[inline]
    pub fn pointer(self) -> *mut T {
        self.0
    }

    /// The same buffer, read.
    pub fn as_in(self) -> In<T> {
        In(self.0)
    }
}

impl<T> In<T> {
    /// Elements that the library keeps borrowed until the operation is over.
    pub fn of(places: &[T]) -> In<T> {
        In(places.as_ptr())
    }

    /// The pointer itself, for calls that read more than its bytes.
    #[inline]
    pub fn pointer(self) -> *const T {
        self.0
    }
}

impl<T> Sym<T> {
    /// Element `index` of an array; checked, as every claim, when it becomes a `SegmentRange`.
    #[inline]
    pub fn element(self, index: usize) -> Self {
        Sym(self.0.wrapping_add(index))
    }

    /// A symmetric object of the library; harmless whatever the address, as it is checked like all.
    pub fn at(addr: usize) -> Sym<T> {
        Sym(std::ptr::with_exposed_provenance_mut(addr))
    }

    /// The caller's own copy of it, as a buffer.
    #[inline]
    pub fn as_out(self) -> Out<T> {
        Out(self.0)
    }

    /// The pointer itself, for the allocator, which looks it up before it uses it.
    pub fn pointer(self) -> *mut u8 {
        self.0.cast()
    }
}

impl<T> SymIn<T> {
    /// A symmetric object of the library; harmless whatever the address, as it is checked like all.
    pub fn at(addr: usize) -> SymIn<T> {
        SymIn(std::ptr::with_exposed_provenance(addr))
    }

    /// The caller's own copy of it, as a buffer.
    #[inline]
    pub fn as_in(self) -> In<T> {
        In(self.0)
    }

    /// Element `index` of an array; checked, as every claim, when it becomes a `SegmentRange`.
    #[inline]
    pub fn element(self, index: usize) -> Self {
        SymIn(self.0.wrapping_add(index))
    }

    /// The same object for calls that share their code with writing ones.
    #[inline]
    pub fn as_sym(self) -> Sym<T> {
        Sym(self.0.cast_mut())
    }
}
