//! Selectors against the answers of Kubernetes: `selector_upstream.txt` has several thousand
//! expressions, written by hand and at random, each with what `k8s.io/dynamic-resource-allocation/cel`
//! makes of it for the devices below. A row of values is written as a comparison with the value that
//! upstream gave.
//!
//! What is not in the file, because it differs on purpose: the run-time cost limit, `timestamp` and
//! `duration`, messages such as `Type{}`, the texts of `validate(...)`, quantities over 1.7e29, compiled
//! patterns over 1 MiB, and what makes upstream panic.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use lanemate_driver::attribute::{AttributeValue, Attributes, Capacities, QualifiedName};
use lanemate_driver::selector::{Selector, Subject};

struct Device {
    driver: &'static str,
    attributes: Attributes,
    capacity: Capacities,
    shareable: bool,
}

impl Device {
    fn new(driver: &'static str, shareable: bool) -> Self {
        let (attributes, capacity) = (Attributes::new(), Capacities::new());
        Self { driver, attributes, capacity, shareable }
    }

    fn with(mut self, name: &str, value: AttributeValue) -> Self {
        self.attributes.insert(QualifiedName::parse(name, self.driver), value);
        self
    }

    fn with_capacity(mut self, name: &str, quantity: &str) -> Self {
        self.capacity.insert(QualifiedName::parse(name, self.driver), quantity.parse().unwrap());
        self
    }

    fn text(self, name: &str, text: &str) -> Self {
        self.with(name, AttributeValue::String(text.into()))
    }

    fn answer(&self, selector: &Selector) -> char {
        let subject = Subject {
            driver: self.driver,
            attributes: &self.attributes,
            capacity: &self.capacity,
            allow_multiple_allocations: self.shareable,
        };
        match selector.matches(&subject) {
            Ok(true) => 'T',
            Ok(false) => 'F',
            Err(_) => 'E',
        }
    }
}

/// A rich device, one whose attributes are of other types, and one with nothing.
fn devices() -> [Device; 3] {
    use AttributeValue::{Bool, Bools, Int, Ints, Strings, Version, Versions};
    let rich = Device::new("d.io", true)
        .text("s", "NVIDIA H200")
        .text("u", "héllo 世界 🎉")
        .text("e", "")
        .text("ip", "10.1.2.3")
        .text("o.io/x", "o")
        .with("i", Int(10))
        .with("zero", Int(0))
        .with("b", Bool(true))
        .with("v", Version("2.1.0-rc.1+b5".into()))
        .with("ls", Strings(["a", "b", "a"].map(str::to_owned).into()))
        .with("li", Ints(vec![3, 1, 2]))
        .with("lb", Bools(vec![true, false]))
        .with("lv", Versions(["1.2.3", "1.10.0"].map(str::to_owned).into()))
        .with("o.io/i", Int(-5))
        .with("o.io/min", Int(i64::MIN))
        .with_capacity("m", "141Gi")
        .with_capacity("p", "1500m")
        .with_capacity("o.io/n", "7");
    let other = Device::new("d.io", false)
        .text("s", "A100")
        .text("ls", "a")
        .with("i", Int(-3))
        .with("b", Bool(false))
        .with("v", Version("1.0.0".into()))
        .with("li", Int(3))
        .with("o.io/x", Bool(true))
        .with_capacity("m", "80G");
    [rich, other, Device::new("x.io", false)]
}

#[test]
fn every_selector_gives_the_answer_of_kubernetes() {
    let devices = devices();
    let rows = include_str!("selector_upstream.txt").lines().filter(|row| !row.starts_with('#'));
    let mut count = 0;
    let mut wrong = Vec::new();
    for row in rows {
        let (expect, quoted) = row.split_once('\t').unwrap();
        let expression: String = serde_json::from_str(quoted).unwrap();
        let answer: String = match Selector::compile(&expression) {
            Ok(selector) => devices.iter().map(|device| device.answer(&selector)).collect(),
            Err(_) => "C".to_owned(),
        };
        count += 1;
        if answer != expect {
            wrong.push(format!("{answer}, upstream {expect}: {expression}"));
        }
    }
    assert!(count > 3500, "{count} rows");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}
