//! What is missing on a node, in words that a person can act on: what, where, and who holds it.

use std::fmt::Write as _;

use lanemate_api::PathClass;

use crate::allocation::problem::{Item, Problem, Rule};
use crate::allocation::{Node, Shortage};
use crate::claim::Filter;
use crate::ids::Kind;
use crate::pool::DeviceSet;

/// Places, devices or holders that a reason names before it says "and N more".
const MAX_NAMED: usize = 4;

/// A problem and the node that cannot serve it.
pub(super) struct Explanation<'a> {
    /// What is asked for.
    pub(super) problem: &'a Problem,
    /// Where it was looked for.
    pub(super) node: &'a Node,
}

impl Explanation<'_> {
    /// Says what is missing.
    pub(super) fn shortage(&self, shortage: &Shortage) -> String {
        match shortage {
            Shortage::Devices { filters, needed } => self.devices(filters, *needed),
            Shortage::Sets { item, reached } => self.sets(&self.problem.items[*item], *reached),
            Shortage::Together => match self.problem.items.as_slice() {
                [item] if item.across().is_some() => format!(
                    "needs {}; enough are free, but too far from each other",
                    self.demand(item)
                ),
                _ => "each request fits by itself, but not all of them together".to_owned(),
            },
            Shortage::Budget => {
                "search budget: no answer was found within the allowed number of steps; ask for \
                 fewer devices, or for kinds that differ less"
                    .to_owned()
            }
        }
    }

    /// "request gpus: needs 9 GPUs; 8 of 16 devices match, 5 are free; gpu-… is held by ns/a".
    fn devices(&self, filters: &[usize], needed: u32) -> String {
        let wanted = |filter: &usize| &self.problem.filters[*filter];
        let labels: Vec<&str> = filters.iter().map(|f| wanted(f).label.as_str()).collect();
        let noun = if labels.len() == 1 { "request" } else { "requests" };
        let (mut selected, mut tolerated) = (DeviceSet::default(), DeviceSet::default());
        for filter in filters {
            let of_one = self.selected(&wanted(filter).filter);
            selected = selected.or(of_one);
            let accepts =
                |p: &usize| wanted(filter).filter.tolerates(&self.node.layout.devices[*p]);
            tolerated = tolerated.or(of_one.iter().filter(accepts).collect());
        }
        let free = tolerated.and(self.node.free);
        let all = self.node.layout.len();
        let wanted = count(needed, self.kind(selected).unwrap_or("device"));
        let matching = match selected.len() {
            0 => format!("none of the {all} here matches"),
            some => format!("{some} of {all} devices match"),
        };
        let mut text = format!("{noun} {}: needs {wanted}; {matching}", labels.join(", "));
        let tainted = selected.without(tolerated);
        if !tainted.is_empty() {
            let _ = write!(text, ", {} with a taint that is not tolerated", tainted.len());
            let _ = write!(text, " ({})", self.taints(tainted));
        }
        if !selected.is_empty() {
            let verb = if free.len() == 1 { "is" } else { "are" };
            let _ = write!(text, ", {} {verb} free", free.len());
        }
        let held = tolerated.without(self.node.free);
        if !held.is_empty() {
            let _ = write!(text, "; {}", self.holders(held));
        }
        text
    }

    /// Devices that the selectors of a filter match; one on which they fail does not.
    fn selected(&self, wanted: &Filter) -> DeviceSet {
        let matches = |position: &usize| {
            let mut steps = wanted.steps.iter();
            steps.all(|step| matches!(self.node.matches(step, *position), Ok(true)))
        };
        (0..self.node.layout.len()).filter(matches).collect()
    }

    fn taints(&self, devices: DeviceSet) -> String {
        let taints = devices.iter().flat_map(|position| &self.node.layout.devices[position].taints);
        let mut keys: Vec<&str> = taints.map(|taint| taint.key.as_str()).collect();
        keys.retain(|key| *key != lanemate_api::names::ALLOCATOR_TAINT_KEY);
        keys.sort_unstable();
        keys.dedup();
        keys.join(", ")
    }

    /// "gpu-a, gpu-b held by ns/c; gpu-d held by ns/e".
    fn holders(&self, devices: DeviceSet) -> String {
        let mut by_holder: Vec<(&str, Vec<&str>)> = Vec::new();
        for position in devices.iter() {
            let holder = self.node.holders.get(&position).map_or("another claim", String::as_str);
            let name = self.name(position);
            match by_holder.iter_mut().find(|(other, _)| *other == holder) {
                Some((_, names)) => names.push(name),
                None => by_holder.push((holder, vec![name])),
            }
        }
        let lines = by_holder.iter().map(|(holder, names)| {
            let verb = if names.len() == 1 { "is" } else { "are" };
            format!("{} {verb} held by {holder}", listed(names))
        });
        listed_by("; ", &lines.collect::<Vec<_>>())
    }

    fn name(&self, position: usize) -> &str {
        &self.node.layout.devices[position].name
    }

    /// "needs 4 GPU-NIC pairs within PXB for pair; 3 left: switch …; switch … has gpu-… free but no free NIC: …".
    fn sets(&self, item: &Item, reached: u32) -> String {
        let mut text = format!("needs {}", self.demand(item));
        let places = self.places(item);
        // Where everything hangs together the search serves all or nothing: then counting has to say what is left.
        let counted: u32 = places.iter().map(|place| place.sets).sum();
        let left = reached.max(counted.min(item.count.saturating_sub(1)));
        let (give, rest): (Vec<_>, Vec<_>) = places.iter().partition(|place| place.sets > 0);
        let _ = write!(text, "; {left} left");
        if !give.is_empty() {
            let names: Vec<String> = give.iter().map(|place| place.name_and_sets()).collect();
            let _ = write!(text, ": {}", listed(&names));
        }
        let (alone, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|p| p.lacks_a_part());
        let mut lacking: Vec<String> =
            rest.iter().filter_map(|place| self.lacking(item, place)).collect();
        lacking.extend(self.alone(item, &alone));
        if !lacking.is_empty() {
            let _ = write!(text, "; {}", listed_by("; ", &lacking));
        }
        text
    }

    /// "4 GPU-NIC pairs within PXB, all within NODE of each other, with one lanemate.dev/pcieSwitch".
    fn demand(&self, item: &Item) -> String {
        let mut text = self.wanted(item);
        match &item.rule {
            Rule::Unit { within, .. } => {
                let _ = write!(text, " within {}", within.required);
            }
            Rule::Loose(_) => text += &self.tie(item),
        }
        if let Some(across) = item.across().filter(|across| across.required != PathClass::Sys) {
            let _ = write!(text, ", all within {} of each other", across.required);
        }
        let filters = item.parts.iter().map(|(filter, _)| &self.problem.filters[*filter]);
        let mut bonds: Vec<usize> = filters.flat_map(|wanted| wanted.bonds.clone()).collect();
        bonds.sort_unstable();
        bonds.dedup();
        for bond in bonds {
            let _ = write!(text, ", all with one {}", self.problem.bonds[bond]);
        }
        text
    }

    /// "4 GPU-NIC pairs", or "4 units of 2 GPU + 1 NIC".
    fn wanted(&self, item: &Item) -> String {
        let part =
            |(filter, count): &(usize, u32)| (self.what(*filter, DeviceSet::default()), *count);
        let parts: Vec<(String, u32)> = item.parts.iter().map(part).collect();
        if let [(gpu, 1), (nic, 1)] = parts.as_slice() {
            return count(item.count, &format!("{gpu}-{nic} pair"));
        }
        let parts: Vec<String> = parts.iter().map(|(what, n)| format!("{n} {what}")).collect();
        format!("{} of {}", count(item.count, "unit"), parts.join(" + "))
    }

    fn tie(&self, item: &Item) -> String {
        let Rule::Loose(ties) = &item.rule else { return String::new() };
        let names = ties.iter().map(|(tie, _)| self.problem.tied[*tie].to_string());
        format!(" with one {}", names.collect::<Vec<_>>().join(", one "))
    }

    /// The parts of the node in which sets of an item can be made, and how many.
    fn places(&self, item: &Item) -> Vec<NodePart> {
        let layout = &self.node.layout;
        let accepted: Vec<DeviceSet> = item
            .parts
            .iter()
            .map(|(number, _)| {
                let wanted = &self.problem.filters[*number].filter;
                let selected = self.selected(wanted);
                selected.iter().filter(|p| wanted.tolerates(&layout.devices[*p])).collect()
            })
            .collect();
        let mut left = accepted.iter().fold(DeviceSet::default(), |all, set| all.or(*set));
        let limit = match &item.rule {
            Rule::Unit { within, .. } => within.required,
            Rule::Loose(_) => PathClass::Pxb,
        };
        let mut places = Vec::new();
        while let Some(first) = left.iter().next() {
            let near = |p: &usize| layout.nearness(first, *p).rank <= limit.rank();
            let members: DeviceSet = left.iter().filter(|p| *p == first || near(p)).collect();
            left = left.without(members);
            let free = |set: &DeviceSet| set.and(members).and(self.node.free);
            let sets = item.parts.iter().zip(&accepted).map(|((_, needed), set)| {
                u32::try_from(free(set).len()).unwrap_or(u32::MAX) / (*needed).max(1)
            });
            places.push(NodePart {
                name: self.place_name(members),
                sets: sets.min().unwrap_or(0),
                accepted: accepted.iter().map(|set| set.and(members)).collect(),
            });
        }
        places
    }

    /// The switch that some devices share, else their NUMA node, else the whole node.
    fn place_name(&self, members: DeviceSet) -> String {
        let devices = || members.iter().map(|position| &self.node.layout.devices[position]);
        let mut switches = devices().map(crate::pool::Device::pcie_switch);
        if let Some(Some(first)) = switches.next()
            && switches.all(|other| other.as_ref() == Some(&first))
        {
            return format!("switch {first}");
        }
        let mut numa = devices().map(crate::pool::Device::numa_node);
        match numa.next() {
            Some(Some(first)) if numa.all(|other| other == Some(first)) => {
                format!("NUMA node {first}")
            }
            _ if members.len() == 1 => devices().map(|device| device.name.clone()).collect(),
            _ => "the node".to_owned(),
        }
    }

    /// "switch X has a free gpu-a but no free nic: nic-b is held by ns/c"; absent when nothing there is free.
    fn lacking(&self, item: &Item, place: &NodePart) -> Option<String> {
        let (mut has, mut lacks): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
        for ((filter, needed), accepted) in item.parts.iter().zip(&place.accepted) {
            let free = accepted.and(self.node.free);
            if free.len() >= *needed as usize {
                has.extend(free.iter().map(|position| self.name(position)));
                continue;
            }
            let what = self.what(*filter, *accepted);
            let held = accepted.without(self.node.free);
            lacks.push(match (held.is_empty(), free.len()) {
                (true, some) => format!("only {some} {what}"),
                (false, 0) => format!("no free {what}: {}", self.holders(held)),
                (false, some) => format!("only {some} free {what}: {}", self.holders(held)),
            });
        }
        let has = (!has.is_empty()).then(|| listed(&has))?;
        Some(format!("{} has {has} free but {}", place.name, lacks.join(", and ")))
    }

    /// "no NIC is near enough to gpu-a, gpu-b and 6 more", for each part that is missing near free devices.
    fn alone(&self, item: &Item, places: &[&NodePart]) -> Vec<String> {
        let numbered = item.parts.iter().enumerate();
        let lines = numbered.filter_map(|(part, (filter, _))| {
            let lacking = places.iter().filter(|place| place.accepted[part].is_empty());
            let free = lacking
                .flat_map(|place| &place.accepted)
                .fold(DeviceSet::default(), |all, accepted| all.or(accepted.and(self.node.free)));
            let names: Vec<&str> = free.iter().map(|position| self.name(position)).collect();
            let what = self.what(*filter, DeviceSet::default());
            (!names.is_empty()).then(|| format!("no {what} is near enough to {}", listed(&names)))
        });
        lines.collect()
    }

    /// What a part asks for: the kind of its devices, where it is known, else its label.
    fn what(&self, filter: usize, accepted: DeviceSet) -> String {
        let wanted = &self.problem.filters[filter];
        let devices = if accepted.is_empty() { self.selected(&wanted.filter) } else { accepted };
        self.kind(devices).map_or_else(|| wanted.label.clone(), str::to_owned)
    }

    /// The one kind of some devices.
    fn kind(&self, devices: DeviceSet) -> Option<&'static str> {
        let mut kinds = devices.iter().map(|position| self.node.layout.kinds[position]);
        let first = kinds.next()??;
        kinds.all(|kind| kind == Some(first)).then_some(match first {
            Kind::Gpu => "GPU",
            Kind::Nic => "NIC",
        })
    }
}

/// A part of a node in which devices are near enough to form a set.
struct NodePart {
    name: String,
    sets: u32,
    /// Devices that each part of the item accepts here.
    accepted: Vec<DeviceSet>,
}

impl NodePart {
    /// No device here can ever serve some part.
    fn lacks_a_part(&self) -> bool {
        self.accepted.iter().any(|accepted| accepted.is_empty())
    }

    fn name_and_sets(&self) -> String {
        if self.sets == 1 { self.name.clone() } else { format!("{} ({})", self.name, self.sets) }
    }
}

fn count(number: u32, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn listed<T: AsRef<str>>(names: &[T]) -> String {
    listed_by(", ", names)
}

/// The first names, and how many there are more.
fn listed_by<T: AsRef<str>>(separator: &str, names: &[T]) -> String {
    // "and 1 more" would be as long as the name.
    let shown = if names.len() <= MAX_NAMED + 1 { names.len() } else { MAX_NAMED };
    let text: Vec<&str> = names.iter().take(shown).map(AsRef::as_ref).collect();
    match names.len() - shown {
        0 => text.join(separator),
        more => format!("{}{separator}and {more} more", text.join(separator)),
    }
}
