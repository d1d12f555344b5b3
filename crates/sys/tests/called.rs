//! A program that this library is linked into: the program's lines name the site of a call, despite
//! the library's frames above them on the stack.

use raidshmem_sys::site::{here, name};

#[test]
fn a_site_is_named_by_the_lines_of_the_program() {
    let site = here();
    let named = name(&site.chain, &["/no/such/folder"]);
    // Without debug information there is no line.
    let first = named.starts_with("called.rs:") || named.starts_with("address 0x");
    assert!(first && !named.contains("caller.rs") && !named.contains("site.rs"), "{named}");
}
