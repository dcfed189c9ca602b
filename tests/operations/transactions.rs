//! Several operations in one transaction, and several reads in one request.

use lockkeeper::{
    CreateMode, Version,
    client::{OpResult, Read, ReadResult},
    error::{Effect, ErrorCode, ErrorKind, Peer},
    node::Acl,
    proto::OpCode,
};

use crate::{
    rig::{create, set, two_and_a_node},
    support::{Ensemble, on_both_arms},
};

on_both_arms! {
    async fn a_transaction_says_what_each_operation_has_done(ensemble: &Ensemble) {
        let (client, _, root) = two_and_a_node(ensemble, "multi").await;
        let at = |name: &str| format!("{root}/{name}");
        create(&client, &at("old")).await;
        let results = client
            .transaction()
            .check(&root, Version(0))
            .create(&at("a"), "1", CreateMode::Persistent)
            .create(&at("a/n-"), "", CreateMode::EphemeralSequential)
            .create(&at("c"), "", CreateMode::Container)
            .create_with_acl(&at("r"), "", CreateMode::Persistent, Acl::OPEN_UNSAFE)
            .set_data(&at("a"), "2", Version(0))
            .delete(&at("old"), Version::ANY)
            .commit()
            .await
            .unwrap();
        let created = |result: &OpResult| match result {
            OpResult::Created { path, .. } => path.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(results.len(), 7);
        assert_eq!(results[0], OpResult::Checked);
        assert_eq!(created(&results[1]), at("a"));
        assert_eq!(created(&results[2]), at("a/n-0000000000"));
        assert_eq!(created(&results[3]), at("c"));
        assert_eq!(created(&results[4]), at("r"));
        let OpResult::DataSet(stat) = &results[5] else { panic!("{:?}", results[5]) };
        assert_eq!((stat.version, stat.czxid), (Version(1), stat.mzxid));
        assert_eq!(results[6], OpResult::Deleted);
        assert_eq!(client.exists(&at("old")).await.unwrap(), None);
    }

    async fn nothing_of_a_refused_transaction_is_applied(ensemble: &Ensemble) {
        let (client, _, root) = two_and_a_node(ensemble, "refused-multi").await;
        for (transaction, expected) in [
            (client.transaction().set_data(&root, "x", Version::ANY).check(&root, Version(7)), (1, ErrorCode::BAD_VERSION)),
            (client.transaction().check(&format!("{root}/x"), Version::ANY).set_data(&root, "x", Version::ANY), (0, ErrorCode::NO_NODE)),
        ] {
            let refused = transaction.commit().await.unwrap_err();
            let ErrorKind::TransactionRefused { index, code, .. } = *refused.kind() else { panic!("{refused}") };
            let peer = refused.peer();
            assert_eq!((index, code), expected);
            assert_eq!((peer.server.is_some(), peer.session), (true, client.snapshot().session_id));
        }
        assert_eq!(client.exists(&root).await.unwrap().unwrap().version, Version(0));
        assert_eq!(client.transaction().commit().await.unwrap(), [], "an empty transaction has no results");
    }

    async fn each_of_several_reads_succeeds_or_fails_by_itself(ensemble: &Ensemble) {
        let (client, _, root) = two_and_a_node(ensemble, "multi-read").await;
        create(&client, &format!("{root}/a")).await;
        set(&client, &root).await;
        let missing = format!("{root}/x");
        let reads = [Read::Data(&root), Read::Children(&missing), Read::Children(&root), Read::Data(&missing)];
        let results = client.multi_read(&reads).await.unwrap();
        let [Ok(ReadResult::Data(node)), no_children, Ok(ReadResult::Children(names)), no_data] = results.as_slice() else {
            panic!("{results:?}");
        };
        assert_eq!((node.data.as_deref(), node.stat.num_children), (Some(&b"x"[..]), 1));
        assert_eq!(names, &["a"]);
        for (failed, op) in [(no_children, OpCode::GET_CHILDREN), (no_data, OpCode::GET_DATA)] {
            let failed = failed.as_ref().unwrap_err();
            let ErrorKind::Refused { op: of, path, code, .. } = failed.kind() else { panic!("{failed}") };
            assert_eq!((*of, path, *code), (op, &missing, ErrorCode::NO_NODE));
            let peer = Peer { server: client.snapshot().server, session: client.snapshot().session_id };
            assert_eq!((failed.peer(), failed.effect()), (&peer, Effect::NotApplied));
        }
        assert_eq!(client.multi_read(&[]).await.unwrap(), []);
    }

    async fn a_bad_path_fails_before_anything_is_sent(ensemble: &Ensemble) {
        let (client, _, root) = two_and_a_node(ensemble, "bad-path").await;
        let written = client.transaction().set_data(&root, "x", Version::ANY).delete("x", Version::ANY).commit().await;
        assert!(matches!(written.unwrap_err().kind(), ErrorKind::BadPath(_)));
        let read = client.multi_read(&[Read::Data(&root), Read::Children("/x/")]).await;
        assert!(matches!(read.unwrap_err().kind(), ErrorKind::BadPath(_)));
        assert_eq!(client.exists(&root).await.unwrap().unwrap().version, Version(0));
    }
}
