//! Prepare and Unprepare.

use lanemate_driver::prepare::vendor_cdi::VendorCdi;

use super::place::*;
use crate::state::{Consumer, Fetched, HeldState, PrepareError, Ticket};

const CDI: &str = "lanemate.dev-claim_uid-1.json";

#[test]
fn a_claim_is_prepared_and_unprepared_and_nothing_stays() {
    let place = Place::new();
    let mut plugin = place.plugin();
    let pair = pair("uid-1");
    let prepared = place.prepare(&mut plugin, &pair).unwrap();
    assert_eq!(prepared.devices.len(), 2);
    assert_eq!(prepared.devices[1].cdi_device_ids, ["lanemate.dev/claim=uid-1.pair.1"]);
    assert_eq!(place.names("cdi"), [CDI]);
    assert_eq!(place.names("metadata"), ["uid-1/", "uid-1/pair.metadata"]);
    assert_eq!(place.names("state/claims"), ["uid-1.json"]);
    let held = [("uid-1".to_owned(), strings(&[GPU, NIC]), HeldState::Prepared)];
    assert_eq!(plugin.held(), held);
    assert_eq!(plugin.metric(r#"lanemate_plugin_records{state="Prepared"}"#), "1");

    place.unprepare(&mut plugin, &id(&pair)).unwrap();
    for directory in ["cdi", "metadata", "state/claims", "state/quarantine"] {
        assert_eq!(place.names(directory), [""; 0], "{directory}");
    }
    assert_eq!(plugin.held(), []);
    assert_eq!(plugin.metric(r#"lanemate_plugin_records{state="Prepared"}"#), "0");
    place.unprepare(&mut plugin, &id(&pair)).unwrap();
}

#[test]
fn a_second_prepare_gives_the_same_answer_and_restores_files() {
    let place = Place::new();
    let mut plugin = place.plugin();
    let pair = pair("uid-1");
    let first = place.prepare(&mut plugin, &pair).unwrap();
    let files = contents(place.directory.path());
    std::fs::remove_file(place.path("cdi").join(CDI)).unwrap();
    std::fs::write(place.path("metadata/uid-1/pair.metadata"), "other").unwrap();
    assert_eq!(place.prepare(&mut plugin, &pair).unwrap(), first);
    assert_eq!(contents(place.directory.path()), files);
    std::fs::remove_file(place.path("cdi").join(CDI)).unwrap();
    let reading = plugin.node.read(place.now);
    assert_eq!(plugin.node.prepared(&id(&pair), &reading).unwrap().devices, first.devices);
    assert_eq!(contents(place.directory.path()), files);
}

#[test]
fn a_device_is_held_by_one_claim_until_it_is_unprepared() {
    let place = Place::new();
    let mut plugin = place.plugin();
    place.prepare(&mut plugin, &pair("uid-1")).unwrap();
    let other = claim("other", "uid-2", &[("gpu", GPU)]);
    let refused = place.prepare(&mut plugin, &other).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "prepare claim ml/other (uid-2): device {GPU} is held by claim ml/pair (uid-1) \
             (Prepared), until that is unprepared on this node"
        )
    );
    assert!(matches!(refused, PrepareError::Refused(_)));
    place.prepare(&mut plugin, &claim("third", "uid-3", &[("gpu", GPU_2)])).unwrap();
    place.unprepare(&mut plugin, &id(&pair("uid-1"))).unwrap();
    place.prepare(&mut plugin, &other).unwrap();
}

#[test]
fn a_late_prepare_does_not_bring_a_claim_back() {
    let place = Place::new();
    let mut plugin = place.plugin();
    let pair = pair("uid-1");
    let early = Fetched {
        claim: pair.clone(),
        ticket: plugin.node.ticket(&id(&pair).uid, place.now),
        consumer: Consumer::NotAsked,
    };
    place.prepare_fetched(&mut plugin, &early).unwrap();
    place.unprepare(&mut plugin, &id(&pair)).unwrap();
    let late = place.prepare_fetched(&mut plugin, &early).unwrap_err();
    assert!(matches!(late, PrepareError::Stale(_)), "{late}");
    let ticket = plugin.node.ticket(&id(&pair).uid, place.now);
    assert_ne!(ticket, Ticket::default());
    let gone = Consumer::Gone("pod p is ending".to_owned());
    let dead = Fetched { ticket: ticket.clone(), consumer: gone, ..early.clone() };
    let refused = place.prepare_fetched(&mut plugin, &dead).unwrap_err();
    assert!(refused.to_string().ends_with("reserved: pod p is ending"), "{refused}");
    let alive = Fetched { ticket, consumer: Consumer::Alive, ..early };
    place.prepare_fetched(&mut plugin, &alive).unwrap();
}

#[test]
fn a_virtual_function_and_its_physical_one_exclude_each_other_and_siblings_do_not() {
    let place = Place::new();
    let [physical, one, other] = ["0000:18:00.0", "0000:40:00.0", "0000:4f:00.0"];
    place.change(|facts| {
        for function in [one, other] {
            let function = facts.functions.get_mut(&function.parse().unwrap()).unwrap();
            function.physical_function = Some(physical.parse().unwrap());
        }
    });
    let nic = |address: &str| format!("nic-{}", address.replace([':', '.'], "-"));
    let for_nic =
        |uid: &str, address: &str| claim(uid, &format!("uid-{uid}"), &[("a", &nic(address))]);
    for (first, second, is_refused) in
        [(physical, one, true), (one, physical, true), (one, other, false)]
    {
        let mut plugin = place.plugin();
        place.prepare(&mut plugin, &for_nic("1", first)).unwrap();
        for is_lost in [false, true] {
            if is_lost {
                std::fs::write(place.path("state/claims/uid-1.json"), "bad").unwrap();
            }
            let second_claim = for_nic("2", second);
            let result = place.prepare(&mut plugin, &second_claim);
            assert_eq!(result.is_err(), is_refused, "{first} {second} {is_lost}");
            if let Err(refused) = result {
                let shares = format!("{} shares hardware with {}", nic(second), nic(first));
                assert!(refused.to_string().contains(&shares), "{refused}");
            }
            place.unprepare(&mut plugin, &id(&second_claim)).unwrap();
        }
        place.unprepare(&mut plugin, &id(&for_nic("1", first))).unwrap();
    }
}

#[test]
fn administrators_hold_nothing_and_are_kept_from_nothing() {
    let place = Place::new();
    let mut plugin = place.plugin();
    let mut look = claim("look", "uid-a", &[("look", GPU), ("look", GPU)]);
    let allocation = look.status.as_mut().unwrap().allocation.as_mut().unwrap();
    for result in allocation.devices.as_mut().unwrap().results.as_mut().unwrap() {
        result.admin_access = Some(true);
    }
    place.prepare(&mut plugin, &pair("uid-1")).unwrap();
    assert_eq!(place.prepare(&mut plugin, &look).unwrap().devices.len(), 2);
    assert_eq!(plugin.held()[0], ("uid-a".to_owned(), vec![], HeldState::Prepared));
    place.unprepare(&mut plugin, &id(&pair("uid-1"))).unwrap();
    place.prepare(&mut plugin, &pair("uid-2")).unwrap();
}

#[test]
fn what_cannot_be_served_is_refused_before_anything_is_done() {
    let place = Place::new();
    let mut plugin = place.plugin();
    let mut unallocated = pair("uid-1");
    unallocated.status = None;
    let mut dying = pair("uid-1");
    dying.metadata.deletion_timestamp = dying.metadata.creation_timestamp.clone();
    dying.status.as_mut().unwrap().reserved_for = None;
    for (claim, expect) in [
        (unallocated, "status.allocation is missing"),
        (dying, "it is being deleted, and no pod has it reserved"),
        (claim("a", "uid-1", &[("a", GPU), ("b", GPU)]), "is granted twice in one claim"),
        (claim("a", "uid-1", &[("a", "gpu-0000-99-00-0")]), "does not exist on node n1"),
        (claim("a", "uid-1", &[("a", "../x")]), "is not a DNS label"),
        (claim("a", "uid-1", &[]), "has no device of lanemate.dev in pool n1"),
    ] {
        let refused = place.prepare(&mut plugin, &claim).unwrap_err();
        assert!(matches!(refused, PrepareError::Refused(_)), "{refused}");
        assert!(refused.to_string().contains(expect), "{refused}");
        assert_eq!(plugin.held(), []);
        assert_eq!((place.names("cdi"), place.names("state/claims")), (vec![], vec![]));
    }
}

#[test]
fn kubelet_is_told_the_same_names_when_a_vendor_file_comes_and_goes() {
    let place = Place::new();
    let mut plugin = place.plugin();
    let machine = machine();
    let gpu = &machine.facts.nvml.as_ref().unwrap().gpus[&"0000:1b:00.0".parse().unwrap()];
    let vendor_id = format!("nvidia.com/gpu={}", gpu.uuid.as_deref().unwrap());
    let node = format!("/dev/nvidia{}", gpu.minor.unwrap());
    let set_vendor = |is_there: bool| {
        let mut reading = place.reading.lock().unwrap();
        let mut options = (*reading.options).clone();
        let nodes = [&*node];
        let device = (&*vendor_id, &nodes[..]);
        options.vendor_cdi = VendorCdi::from_devices(is_there.then_some(device));
        reading.options = options.into();
    };
    let own = "lanemate.dev/claim=uid-1.pair.0".to_owned();
    let ids = |plugin: &mut Plugin| {
        place.prepare(plugin, &pair("uid-1")).unwrap().devices[0].cdi_device_ids.clone()
    };
    let spec = || std::fs::read(place.path("cdi").join(CDI)).unwrap();
    assert_eq!(ids(&mut plugin), [&*own]);
    let first = spec();
    set_vendor(true);
    assert_eq!(ids(&mut plugin), [&*own]);
    assert_eq!(spec(), first);
    place.unprepare(&mut plugin, &id(&pair("uid-1"))).unwrap();

    assert_eq!(ids(&mut plugin), [&*vendor_id, &*own]);
    let with_vendor = spec();
    assert_ne!(with_vendor, first);
    set_vendor(false);
    // The names that kubelet has would not be those of the file.
    plugin = place.plugin();
    assert_eq!(spec(), with_vendor);
    assert_eq!(ids(&mut plugin), [&*own]);
    assert_eq!(spec(), first);
    place.unprepare(&mut plugin, &id(&pair("uid-1"))).unwrap();

    // Without the API server the answer is that of the file as well.
    set_vendor(true);
    assert_eq!(ids(&mut plugin), [&*vendor_id, &*own]);
    set_vendor(false);
    std::fs::remove_file(place.path("cdi").join(CDI)).unwrap();
    let reading = plugin.node.read(place.now);
    let prepared = plugin.node.prepared(&id(&pair("uid-1")), &reading).unwrap();
    assert_eq!(spec(), first);
    assert_eq!(prepared.devices[0].cdi_device_ids, [&*own]);
}

#[test]
fn only_a_claim_that_is_prepared_in_this_boot_is_answered_for_without_the_api() {
    let place = Place::new();
    let mut plugin = place.plugin();
    let pair = pair("uid-1");
    let reading = plugin.node.read(place.now);
    assert_eq!(plugin.node.prepared(&id(&pair), &reading), None);
    place.prepare(&mut plugin, &pair).unwrap();
    assert!(plugin.node.prepared(&id(&pair), &reading).is_some());
    let other_name = claim("other", "uid-1", &[]);
    assert_eq!(plugin.node.prepared(&id(&other_name), &reading), None);
    place.set_boot(Some("boot-2"));
    let reading = plugin.node.read(place.now);
    assert_eq!(plugin.node.prepared(&id(&pair), &reading), None);
}

#[test]
fn a_card_without_its_driver_is_refused_and_can_be_unprepared() {
    let place = Place::new();
    let mut plugin = place.plugin();
    let pair = pair("uid-1");
    place.prepare(&mut plugin, &pair).unwrap();
    place.change(|facts| {
        facts.nvml = None;
        for function in facts.functions.values_mut() {
            function.rdma.clear();
            function.driver = None;
        }
    });
    let refused = place.prepare(&mut plugin, &pair).unwrap_err();
    assert!(matches!(refused, PrepareError::Refused(_)), "{refused}");
    assert_eq!(place.names("cdi"), [CDI]);
    // A start without the driver leaves the files of before.
    assert_eq!(place.plugin().held()[0].2, HeldState::Prepared);
    assert_eq!(place.names("cdi"), [CDI]);
    place.unprepare(&mut plugin, &id(&pair)).unwrap();
    assert_eq!((place.names("cdi"), place.names("state/claims")), (vec![], vec![]));
}
