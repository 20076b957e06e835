//! The pending claims of one pod as a problem that knows no nodes.
//!
//! Everything a claim can ask for becomes *items*: k times the same small set of devices. A unit of a
//! ResourceClass or a `Placement` is an item; so is each plain request (sets of one device), and so are the
//! plain requests that a `matchAttribute` ties together (one set of all of them). Items that are alike become
//! one, so that "eight requests for a GPU" costs no more than "a request for eight". A constraint that binds
//! several sets, such as one that names a ResourceClass request, is a *bond*: it is solved for each value.

use std::collections::BTreeMap;

use lanemate_api::{Across, PathClass, Within};

use crate::allocation::score::Wishes;
use crate::attribute::QualifiedName;
use crate::claim::{Claim, Filter, Wants, filter::Toleration};

/// Filters that one problem may have; its devices carry one bit for each.
pub const MAX_FILTERS: usize = 128;

/// The claims of one pod.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    /// Distinct filters.
    pub filters: Vec<Wanted>,
    /// What is asked for.
    pub items: Vec<Item>,
    /// Constraints over several sets of devices.
    pub bonds: Vec<QualifiedName>,
    /// Attributes that tie loose requests together.
    pub tied: Vec<QualifiedName>,
}

/// A filter, and the bonds of the requests that use it.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What a device passes.
    pub filter: Filter,
    /// Indices of bonds.
    pub bonds: Vec<usize>,
    /// Name for people: the request, or the request and its member.
    pub label: String,
}

/// k times the same set of devices.
#[derive(Clone, Debug)]
pub struct Item {
    /// Parts of one set: filter and number of devices.
    pub parts: Vec<(usize, u32)>,
    /// How the devices of one set, and the sets, relate.
    pub rule: Rule,
    /// Number of sets.
    pub count: u32,
    /// Who gets the sets, in this order.
    pub owners: Vec<Owner>,
}

/// How the devices of one set relate.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// A unit: near enough to each other, and its pairs are rated.
    Unit {
        /// Between the devices of the set.
        within: Within,
        /// Between the sets.
        across: Across,
    },
    /// Devices outside units; for each tie, its attribute (an index of [`Problem::tied`]) and the parts that have
    /// one value of it.
    Loose(Vec<(usize, Vec<usize>)>),
}

/// Who gets some of an item's sets.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Index of the claim.
    pub claim: usize,
    /// Number of sets.
    pub count: u32,
    /// Index of the request that each part belongs to.
    pub requests: Vec<usize>,
    /// Index of the Placement of the claim; absent for a request of its own.
    pub placement: Option<usize>,
}

/// A problem that is too large.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} different device filters in the claims of one pod: at most {MAX_FILTERS} are supported"
)]
pub struct TooManyFilters(usize);

type FilterKey = (Vec<usize>, Vec<Toleration>, Vec<usize>);

/// Collects items and filters, merging what is alike.
#[derive(Default)]
struct Builder {
    problem: Problem,
    known: BTreeMap<FilterKey, usize>,
}

impl Problem {
    /// The problem of some claims that are decided together.
    pub fn new(claims: &[&Claim]) -> Result<Self, TooManyFilters> {
        let mut builder = Builder::default();
        for (index, claim) in claims.iter().enumerate() {
            builder.add_claim(index, claim);
        }
        let problem = builder.problem;
        if problem.filters.len() > MAX_FILTERS {
            return Err(TooManyFilters(problem.filters.len()));
        }
        Ok(problem)
    }

    /// Devices asked for in all.
    pub fn devices(&self) -> u32 {
        self.items.iter().map(|item| item.count * item.set_size()).sum()
    }
}

impl Item {
    /// Devices of one set.
    pub fn set_size(&self) -> u32 {
        self.parts.iter().map(|(_, count)| count).sum()
    }

    /// The wished class within a unit.
    pub fn preferred_within(&self) -> Option<PathClass> {
        match &self.rule {
            Rule::Unit { within, .. } => within.preferred,
            Rule::Loose(_) => None,
        }
    }

    /// Wishes that could be met at most.
    pub fn most_wishes(&self) -> Wishes {
        let wishes_across = self.across().is_some_and(|across| across.preferred.is_some());
        let pairs = self.count * self.count.saturating_sub(1) / 2;
        Wishes {
            within: if self.preferred_within().is_some() { self.count } else { 0 },
            across: if wishes_across { pairs } else { 0 },
        }
    }

    /// The wish and the limit between units, where they say anything.
    pub fn across(&self) -> Option<Across> {
        match &self.rule {
            Rule::Unit { across, .. } if *across != Across::default() => Some(*across),
            _ => None,
        }
    }
}

impl Builder {
    fn add_claim(&mut self, index: usize, claim: &Claim) {
        let placed = |request: usize| {
            claim.placements.iter().any(|p| p.unit.iter().any(|(r, _)| *r == request))
        };
        let is_loose = |request: usize| {
            matches!(claim.requests[request].wants, Wants::Device(_)) && !placed(request)
        };
        // A constraint on loose requests only ties them into one set; any other is a bond.
        let (ties, bonds): (Vec<_>, Vec<_>) =
            claim.constraints.iter().partition(|c| c.requests.iter().all(|r| is_loose(*r)));
        let first_bond = self.problem.bonds.len();
        self.problem.bonds.extend(bonds.iter().map(|bond| bond.attribute.clone()));
        let bonds_of = |request: usize| -> Vec<usize> {
            let numbered = bonds.iter().enumerate();
            let of_request = numbered.filter(|(_, bond)| bond.requests.contains(&request));
            of_request.map(|(number, _)| first_bond + number).collect()
        };
        let mut done = vec![false; claim.requests.len()];
        for request in 0..claim.requests.len() {
            if std::mem::replace(&mut done[request], true) {
                continue;
            }
            if let Wants::Unit(_) = &claim.requests[request].wants {
                self.add_unit_request(index, claim, request, &bonds_of(request));
            } else if let Some(number) = placement_of(claim, request) {
                claim.placements[number].unit.iter().for_each(|(other, _)| done[*other] = true);
                self.add_placement(index, claim, number, &bonds_of);
            } else {
                let tied = tied_together(request, &ties);
                tied.iter().for_each(|other| done[*other] = true);
                self.add_loose(index, claim, &tied, &ties, &bonds_of);
            }
        }
    }

    fn add_unit_request(&mut self, index: usize, claim: &Claim, request: usize, bonds: &[usize]) {
        let asked = &claim.requests[request];
        let Wants::Unit(unit) = &asked.wants else { return };
        let parts: Vec<_> = unit
            .members
            .iter()
            .map(|member| {
                let label = format!("{} ({})", asked.name, member.name);
                (self.filter(&member.filter, bonds, label), member.count)
            })
            .collect();
        let requests = vec![request; parts.len()];
        let owner = Owner { claim: index, count: asked.count, requests, placement: None };
        self.add(parts, Rule::Unit { within: unit.within, across: unit.across }, owner);
    }

    fn add_placement(
        &mut self,
        index: usize,
        claim: &Claim,
        number: usize,
        bonds_of: &impl Fn(usize) -> Vec<usize>,
    ) {
        let placement = &claim.placements[number];
        let mut parts = Vec::new();
        for (request, count) in &placement.unit {
            if let Some(filter) = self.request_filter(claim, *request, &bonds_of(*request)) {
                parts.push((filter, *count));
            }
        }
        let requests = placement.unit.iter().map(|(request, _)| *request).collect();
        let count = placement.count;
        let owner = Owner { claim: index, count, requests, placement: Some(number) };
        let rule = Rule::Unit { within: placement.within, across: placement.across };
        self.add(parts, rule, owner);
    }

    /// A plain request alone is an item of single devices; tied ones are one set.
    fn add_loose(
        &mut self,
        index: usize,
        claim: &Claim,
        tied: &[usize],
        ties: &[&crate::claim::MatchAttribute],
        bonds_of: &impl Fn(usize) -> Vec<usize>,
    ) {
        let of_these = ties.iter().filter(|t| t.requests.iter().any(|r| tied.contains(r)));
        let rules: Vec<(usize, Vec<usize>)> = of_these
            .map(|tie| {
                let part = |request: &usize| tied.iter().position(|other| other == request);
                (self.tied(&tie.attribute), tie.requests.iter().filter_map(part).collect())
            })
            .collect();
        let alone = rules.is_empty();
        let parts: Vec<_> = tied
            .iter()
            .filter_map(|request| {
                let per_set = if alone { 1 } else { claim.requests[*request].count };
                Some((self.request_filter(claim, *request, &bonds_of(*request))?, per_set))
            })
            .collect();
        let count = if alone { claim.requests[tied[0]].count } else { 1 };
        let owner = Owner { claim: index, count, requests: tied.to_vec(), placement: None };
        self.add(parts, Rule::Loose(rules), owner);
    }

    fn tied(&mut self, attribute: &QualifiedName) -> usize {
        let known = &mut self.problem.tied;
        known.iter().position(|other| other == attribute).unwrap_or_else(|| {
            known.push(attribute.clone());
            known.len() - 1
        })
    }

    /// The filter of a plain request; absent for a ResourceClass request, whose members have their own.
    fn request_filter(&mut self, claim: &Claim, request: usize, bonds: &[usize]) -> Option<usize> {
        let asked = &claim.requests[request];
        match &asked.wants {
            Wants::Device(filter) => Some(self.filter(filter, bonds, asked.name.clone())),
            Wants::Unit(_) => None,
        }
    }

    fn filter(&mut self, filter: &Filter, bonds: &[usize], label: String) -> usize {
        let (steps, tolerations) = filter.key();
        let filters = &mut self.problem.filters;
        *self.known.entry((steps, tolerations, bonds.to_vec())).or_insert_with(|| {
            filters.push(Wanted { filter: filter.clone(), bonds: bonds.to_vec(), label });
            filters.len() - 1
        })
    }

    /// Adds an item, or its sets to an item that is alike. Units with a say about each other stay apart.
    fn add(&mut self, parts: Vec<(usize, u32)>, rule: Rule, owner: Owner) {
        let alike = self
            .problem
            .items
            .iter_mut()
            .find(|item| item.across().is_none() && item.parts == parts && item.rule == rule);
        match alike {
            Some(item) => {
                item.count += owner.count;
                item.owners.push(owner);
            }
            None => {
                let count = owner.count;
                self.problem.items.push(Item { parts, rule, count, owners: vec![owner] });
            }
        }
    }
}

fn placement_of(claim: &Claim, request: usize) -> Option<usize> {
    let holds = |p: &crate::claim::PlacementUse| p.unit.iter().any(|(r, _)| *r == request);
    claim.placements.iter().position(holds)
}

/// The requests that constraints tie to one, itself included, in order.
fn tied_together(request: usize, ties: &[&crate::claim::MatchAttribute]) -> Vec<usize> {
    let mut tied = vec![request];
    let mut next = 0;
    while next < tied.len() {
        let current = tied[next];
        for tie in ties.iter().filter(|tie| tie.requests.contains(&current)) {
            for other in &tie.requests {
                if !tied.contains(other) {
                    tied.push(*other);
                }
            }
        }
        next += 1;
    }
    tied.sort_unstable();
    tied
}
