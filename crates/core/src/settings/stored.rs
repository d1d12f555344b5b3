//! The types of settings: how a parsed value becomes the value of a field, and how that is spelled.

use std::time::Duration;

use super::kind::{Value, ValueKind};
use super::units::{show_rate, show_size, show_time};
use super::values::{Device, Every, Interval, Provider, Worded};
use crate::inject::{self, InjectedFault};

/// The type of a field of [`super::Settings`].
pub(super) trait Stored: Sized {
    /// Converts a value; `None` if it is not of a kind for this type. The bounds of a row fit its
    /// type; tests store both of each row.
    fn of(value: Value) -> Option<Self>;

    /// Returns the value as the environment spells it in a setting of this kind; `None` if it is
    /// unset.
    fn show(&self, kind: &ValueKind) -> Option<String>;
}

macro_rules! numbers {
    ($($type:ty)*) => {
        $(impl Stored for $type {
            fn of(value: Value) -> Option<$type> {
                if let Value::Number(number) = value { Some(number as $type) } else { None }
            }

            fn show(&self, kind: &ValueKind) -> Option<String> {
                Some(match (kind, *self as u64) {
                    (ValueKind::Size { .. } | ValueKind::AtLeast { .. }, size) => show_size(size),
                    (ValueKind::Rate { .. }, rate) => show_rate(rate),
                    (ValueKind::Share { .. }, 0) => "auto".to_owned(),
                    (_, number) => number.to_string(),
                })
            }
        })*
    };
}

numbers!(usize u32 u64);

/// Defines the conversions of a type that a variant of [`Value`] holds.
macro_rules! held {
    ($($type:ty = $variant:ident, |$value:ident, $kind:pat_param| $show:expr;)*) => {
        $(impl Stored for $type {
            fn of(value: Value) -> Option<$type> {
                if let Value::$variant(value) = value { Some(value) } else { None }
            }

            fn show(&self, $kind: &ValueKind) -> Option<String> {
                let $value = self;
                $show
            }
        })*
    };
}

held! {
    // A flag is on as soon as it is set, so one that is off must be omitted.
    bool = On, |on, kind| match kind {
        ValueKind::Flag => on.then(|| "1".to_owned()),
        _ => Some(u8::from(*on).to_string()),
    };
    String = File, |path, _| Some(path.clone());
    Every = Every, |every, _| Some(every.to_string());
    Device = Device, |device, _| Some(device.to_string());
    Provider = Provider, |provider, _| Some(provider.name().to_owned());
    Vec<InjectedFault> = Rules, |rules, _| (!rules.is_empty()).then(|| inject::list(rules));
}

impl<T: Worded> Stored for T {
    fn of(value: Value) -> Option<T> {
        if let Value::Choice(at) = value { T::all().get(at).copied() } else { None }
    }

    fn show(&self, _: &ValueKind) -> Option<String> {
        Some(self.word().to_owned())
    }
}

impl Stored for Duration {
    fn of(value: Value) -> Option<Duration> {
        u64::of(value).map(Duration::from_millis)
    }

    fn show(&self, _: &ValueKind) -> Option<String> {
        Some(show_time(*self))
    }
}

impl Stored for Interval {
    fn of(value: Value) -> Option<Interval> {
        match value {
            Value::Auto => Some(Interval::Auto),
            value => Duration::of(value).map(Interval::After),
        }
    }

    fn show(&self, _: &ValueKind) -> Option<String> {
        Some(self.to_string())
    }
}

impl<T: Stored> Stored for Option<T> {
    fn of(value: Value) -> Option<Option<T>> {
        T::of(value).map(Some)
    }

    fn show(&self, kind: &ValueKind) -> Option<String> {
        self.as_ref()?.show(kind)
    }
}
