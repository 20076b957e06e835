//! In the drawing of every machine nothing overlaps and nothing is cut off.
// Helpers of tests are not seen as tests.
#![allow(clippy::unwrap_used)]

mod program;

use program::{hosts, printed};

/// A rectangle with its class.
#[derive(Clone, Debug)]
struct Rect {
    class: String,
    x: i32,
    y: i32,
    width: i32,
    height: i32,
}

fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

fn number(line: &str, name: &str) -> i32 {
    value(line, name).unwrap_or("0").parse().unwrap()
}

impl Rect {
    fn parse(line: &str) -> Option<Self> {
        line.starts_with("<rect").then(|| Self {
            class: value(line, "class").unwrap().to_owned(),
            x: number(line, "x"),
            y: number(line, "y"),
            width: number(line, "width"),
            height: number(line, "height"),
        })
    }

    fn contains(&self, other: &Self) -> bool {
        self.x <= other.x
            && self.y <= other.y
            && self.x + self.width >= other.x + other.width
            && self.y + self.height >= other.y + other.height
    }

    fn is_apart_from(&self, other: &Self) -> bool {
        self.x + self.width <= other.x
            || other.x + other.width <= self.x
            || self.y + self.height <= other.y
            || other.y + other.height <= self.y
    }

    fn is_box(&self) -> bool {
        ["page", "numa", "bridge", "switch"].contains(&self.class.as_str())
    }
}

fn check(args: &[&str]) {
    let svg = printed(&[&["topology", "-o", "svg"], args].concat());
    let rects: Vec<Rect> = svg.lines().filter_map(Rect::parse).collect();
    let page = &rects[0];
    assert_eq!((page.class.as_str(), page.width), ("page", 960));
    for (index, one) in rects.iter().enumerate() {
        assert!(page.contains(one), "{args:?}: {one:?} leaves the page");
        for other in &rects[index + 1..] {
            // Boxes are drawn before what they hold; a chip holds nothing.
            let holds = one.is_box() && one.contains(other);
            assert!(holds || one.is_apart_from(other), "{args:?}: {one:?} and {other:?}");
        }
    }
    let texts: Vec<&str> = svg.lines().filter(|line| line.starts_with("<text")).collect();
    for text in &texts {
        let at = Rect {
            class: String::new(),
            x: number(text, "x"),
            y: number(text, "y"),
            width: 0,
            height: 0,
        };
        assert!(page.contains(&at), "{args:?}: {text} leaves the page");
    }
    let devices = rects.iter().filter(|rect| rect.height == 40).count();
    assert!(devices > 0 && texts.len() > 2 * devices, "{args:?}");
}

#[test]
fn every_box_holds_its_boxes_and_touches_no_other() {
    for entry in std::fs::read_dir(hosts("captures")).unwrap() {
        let host = entry.unwrap().path();
        check(&["--host", host.to_str().unwrap()]);
    }
    for name in ["aws-p4d", "azure-ndv5-h100"] {
        let (host, xml) = (program::capture(name), hosts(&format!("overrides/{name}.xml")));
        check(&["--host", &host, "--override", &xml]);
    }
}

#[test]
fn the_drawing_is_well_formed_and_names_what_it_shows() {
    let svg = printed(&["topology", "-o", "svg", "--host", &program::capture("dgx-h100")]);
    for word in
        ["NUMA 1", "switch 0000:16:00.0", "GPU7", "mlx5_11", "PXB", "left out: default-route"]
    {
        assert!(svg.contains(&format!(">{word}<")), "{word}");
    }
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
}
