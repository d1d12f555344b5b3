//! Addresses as passed to a call: claims, through which nothing is read or written yet.
//!
//! [`In`] and [`Out`] are buffers of the caller, [`Sym`] and [`SymIn`] symmetric objects. A claim
//! to a buffer comes from an argument of a C call, which has the type of its pointer, from a borrow
//! held by the caller, or from symmetric memory of this PE. So holding a claim means being inside a
//! call whose caller guarantees what the specification requires of the argument. A symmetric claim
//! guarantees nothing: it is checked when it becomes a place (`place.rs`).
//!
//! Left out: the reading of lists and strings of a C call (`capi/claims.rs`).

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
            /// Returns this claim in bytes.
            #[inline]
            pub fn erase(self) -> $name<u8> {
                $name(self.0.cast())
            }

            /// Returns the address, for checks and messages.
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
    /// A symmetric object, by the caller's own address.
    Sym(*mut T);
    /// A symmetric object that is only read.
    SymIn(*const T);
}

impl<T> Out<T> {
    /// Claims a place of the safe API, which keeps it borrowed until the operation is over.
    #[inline]
    pub fn at(place: &mut T) -> Out<T> {
        Out(place)
    }

    /// Claims elements that the library keeps borrowed until the operation is over.
    pub fn of(places: &mut [T]) -> Out<T> {
        Out(places.as_mut_ptr())
    }

    /// Writes one value; does nothing to a null pointer.
    #[inline]
    pub fn write(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, and the maker of the claim guarantees a writable object here.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Returns the claim to element `index`.
    pub fn element(self, index: usize) -> Out<T> {
        Out(self.0.wrapping_add(index))
    }

    /// Returns the pointer itself, for calls that keep it.
    #[inline]
    pub fn pointer(self) -> *mut T {
        self.0
    }

    /// Returns this buffer as a readable one.
    pub fn as_in(self) -> In<T> {
        In(self.0)
    }
}

impl Out<u8> {
    /// Writes the low bytes of `value` as a word of 2, 4 or 8 bytes; does nothing to a null
    /// pointer.
    #[inline]
    pub fn write_word(self, bytes: usize, value: u64) {
        match bytes {
            2 => Out(self.0.cast()).write(value as u16),
            4 => Out(self.0.cast()).write(value as u32),
            _ => Out(self.0.cast()).write(value),
        }
    }
}

impl<T> In<T> {
    /// Claims elements that the library keeps borrowed until the operation is over.
    pub fn of(places: &[T]) -> In<T> {
        In(places.as_ptr())
    }

    /// Returns the pointer itself, for calls that read more than its bytes.
    #[inline]
    pub fn pointer(self) -> *const T {
        self.0
    }
}

impl<T> Sym<T> {
    /// Returns element `index` of an array; checked, like every claim, when it becomes a
    /// `SegmentRange`.
    #[inline]
    pub fn element(self, index: usize) -> Self {
        Sym(self.0.wrapping_add(index))
    }

    /// Claims a symmetric object of the library; any address is harmless, as it is checked like
    /// all.
    pub fn at(addr: usize) -> Sym<T> {
        Sym(std::ptr::with_exposed_provenance_mut(addr))
    }

    /// Returns the caller's own copy as a buffer.
    #[inline]
    pub fn as_out(self) -> Out<T> {
        Out(self.0)
    }

    /// Returns the pointer itself, for the allocator, which looks it up before use.
    pub fn pointer(self) -> *mut u8 {
        self.0.cast()
    }
}

impl<T> SymIn<T> {
    /// Claims a symmetric object of the library; any address is harmless, as it is checked like
    /// all.
    pub fn at(addr: usize) -> SymIn<T> {
        SymIn(std::ptr::with_exposed_provenance(addr))
    }

    /// Returns the caller's own copy as a buffer.
    #[inline]
    pub fn as_in(self) -> In<T> {
        In(self.0)
    }

    /// Returns element `index` of an array; checked, like every claim, when it becomes a
    /// `SegmentRange`.
    #[inline]
    pub fn element(self, index: usize) -> Self {
        SymIn(self.0.wrapping_add(index))
    }

    /// Returns this object for calls that share their code with writing ones.
    #[inline]
    pub fn as_sym(self) -> Sym<T> {
        Sym(self.0.cast_mut())
    }
}
