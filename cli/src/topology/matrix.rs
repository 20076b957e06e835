//! The GPU x NIC matrix of `nvidia-smi topo -m`, for the devices that are offered.

use lanemate_api::PathClass;

use super::report::{Nic, Report};
use crate::paint::{Paint, Tone};
use crate::words::WIDTH;

/// Longest path class word, and so the least width of a column.
const CLASS: usize = 4;

/// Renders the matrix, empty without an offered GPU and an offered NIC. A machine with more NICs
/// than fit beside each other gets several blocks.
pub fn render(report: &Report, paint: Paint) -> String {
    let nics: Vec<_> = report.nics.iter().filter(|nic| nic.standing.offered).collect();
    let gpus = report.gpus.iter().filter(|gpu| gpu.standing.offered).count();
    if nics.is_empty() || gpus == 0 {
        return String::new();
    }
    let names = ColumnNames::of(&nics);
    let lead = report.gpus.iter().map(|gpu| gpu.label.len()).max().unwrap_or_default();
    let column = names.short.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(CLASS);
    let fitting = (WIDTH.saturating_sub(lead) / (column + 1)).max(1);
    let mut out = String::new();
    let columns: Vec<_> = nics.iter().copied().zip(&names.short).collect();
    for block in columns.chunks(fitting) {
        out.push('\n');
        if !names.prefix.is_empty() {
            let prefix = format!("{:lead$} {}", "", names.prefix);
            out.push_str(&format!("{}\n", paint.tone(Tone::Nic, &prefix)));
        }
        out.push_str(&format!("{:lead$}", ""));
        for (_, name) in block {
            out.push_str(&paint.tone(Tone::Nic, &format!(" {name:>column$}")));
        }
        out.push('\n');
        out.push_str(&rows(report, block, (lead, column), paint));
    }
    out
}

fn rows(
    report: &Report,
    block: &[(&Nic, &String)],
    (lead, column): (usize, usize),
    paint: Paint,
) -> String {
    let mut out = String::new();
    for gpu in report.gpus.iter().filter(|gpu| gpu.standing.offered) {
        out.push_str(&paint.tone(Tone::Gpu, &format!("{:lead$}", gpu.label)));
        for (nic, _) in block {
            let class = nic.pci_bus_id.and_then(|nic| report.path(gpu.pci_bus_id, nic));
            out.push_str(&match class.map(|path| path.class) {
                Some(class) => paint.tone(tone(class), &format!(" {class:>column$}")),
                None => format!(" {:>column$}", ""),
            });
        }
        out.push('\n');
    }
    out
}

fn tone(class: PathClass) -> Tone {
    match class {
        PathClass::Pix | PathClass::Pxb => Tone::Near,
        PathClass::Phb | PathClass::Node | PathClass::Sys => Tone::Quiet,
    }
}

/// Names of the columns, short enough for a table.
struct ColumnNames {
    /// What all names begin with, written once above them.
    prefix: String,
    /// The rest of each.
    short: Vec<String>,
}

impl ColumnNames {
    /// Full names where they fit; else without their common beginning.
    fn of(nics: &[&Nic]) -> Self {
        let full: Vec<String> = nics.iter().map(|nic| nic.name().to_owned()).collect();
        let widest = full.iter().map(|name| name.chars().count()).max().unwrap_or_default();
        let prefix = common_beginning(&full);
        if full.len() < 2 || (widest + 1) * full.len() + CLASS + 2 <= WIDTH || prefix.is_empty() {
            return Self { prefix: String::new(), short: full };
        }
        let short = full.iter().map(|name| name[prefix.len()..].to_owned()).collect();
        Self { prefix: format!("{prefix}…"), short }
    }
}

/// The longest beginning of all names that ends before the first digit in which they differ, so
/// that numbers stay whole.
fn common_beginning(names: &[String]) -> String {
    let Some(first) = names.first() else { return String::new() };
    let shared =
        |text: &str| names.iter().all(|name| name.len() > text.len() && name.starts_with(text));
    let mut end = 0;
    for (index, c) in first.char_indices() {
        if !shared(&first[..index + c.len_utf8()]) {
            break;
        }
        end = index + c.len_utf8();
    }
    first[..end].trim_end_matches(|c: char| c.is_ascii_digit()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Color;
    use crate::topology::report::{Gpu, PairPath, Seat, Standing};

    fn check(names: &[&str], expect: &str) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(common_beginning(&names), expect);
    }

    #[test]
    fn the_common_beginning_leaves_numbers_whole() {
        check(&["mlx5_0", "mlx5_1", "mlx5_10"], "mlx5_");
        check(&["mlx5_10", "mlx5_11"], "mlx5_");
        check(&["ibp3s0", "rocep1s0"], "");
        check(&["mlx5_1", "mlx5_1"], "mlx5_");
        check(&["a", "ab"], "");
        check(&[], "");
    }

    fn report(nics: usize, name: &str) -> Report {
        let gpu = Gpu {
            label: "GPU0".to_owned(),
            pci_id: None,
            pci_bus_id: "0000:01:00.0".parse().unwrap(),
            uuid: None,
            product_name: None,
            memory_bytes: None,
            seat: Seat::default(),
            standing: Standing::offered(Vec::new()),
        };
        let nic = |index: usize| Nic {
            pci_bus_id: Some(format!("0001:{index:02x}:00.0").parse().unwrap()),
            rdma_devices: vec![format!("{name}{index}")],
            netdevs: Vec::new(),
            link_layer: None,
            port_state: None,
            bandwidth: None,
            seat: Seat::default(),
            standing: Standing::offered(Vec::new()),
        };
        let nics: Vec<Nic> = (0..nics).map(nic).collect();
        let path = |nic: &Nic| PairPath {
            gpu: gpu.pci_bus_id,
            nic: nic.pci_bus_id.unwrap(),
            class: PathClass::Sys,
            switch_hops: None,
            via: None,
            source: "sysfs",
        };
        let paths = nics.iter().map(path).collect();
        Report { host: "n".to_owned(), gpus: vec![gpu], nics, paths, problems: Vec::new() }
    }

    fn check_width(nics: usize, name: &str, blocks: usize) {
        let table = render(&report(nics, name), Paint::new(Color::Never));
        assert!(table.lines().all(|line| line.chars().count() <= WIDTH), "{table}");
        assert_eq!(table.matches("GPU0").count(), blocks, "{table}");
        assert_eq!(table.matches("SYS").count(), nics, "{table}");
    }

    #[test]
    fn a_wide_matrix_is_shortened_and_then_cut_into_blocks() {
        check_width(8, "mlx5_", 1);
        check_width(12, "mlx5_", 1);
        check_width(12, "a_rather_long_name_", 1);
        check_width(15, "mlx5_", 1);
        check_width(64, "mlx5_", 5);
        check_width(0, "mlx5_", 0);
    }
}
