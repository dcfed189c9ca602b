//! Access control lists, and the identities of a client.

use lockkeeper::{
    Client, CreateMode, Version,
    error::{AuthFailure, ErrorCode, ErrorKind},
    node::{Acl, Perms},
};

use crate::{
    rig::two_and_a_node,
    support::{Ensemble, on_both_arms},
};

on_both_arms! {
    async fn acls_are_read_and_set_by_their_own_version(ensemble: &Ensemble) {
        let (client, other, path) = two_and_a_node(ensemble, "acl").await;
        let read = client.get_acl(&path).await.unwrap();
        assert_eq!((read.acl.as_slice(), read.stat.aversion), (Acl::OPEN_UNSAFE, Version(0)));
        // ADMIN stays in the list. Without it the test could not clean up the node.
        let fixed = vec![Acl::new(Perms::READ | Perms::ADMIN, "world", "anyone")];
        let stat = client.set_acl(&path, fixed.clone(), Version(0)).await.unwrap();
        assert_eq!((stat.aversion, stat.version), (Version(1), Version(0)));
        let late = client.set_acl(&path, fixed.clone(), Version(0)).await.unwrap_err();
        assert_eq!(late.code(), Some(ErrorCode::BAD_VERSION));
        assert_eq!(other.get_acl(&path).await.unwrap().acl, fixed);
        let refused = other.set_data(&path, "", Version::ANY).await.unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::NO_AUTH));
        let empty: Vec<Acl> = Vec::new();
        let invalid = client.set_acl(&path, empty, Version::ANY).await.unwrap_err();
        assert_eq!(invalid.code(), Some(ErrorCode::INVALID_ACL));
    }

    async fn the_default_acl_of_a_client_is_that_of_each_create_without_one(ensemble: &Ensemble) {
        let (_, other, root) = two_and_a_node(ensemble, "default").await;
        let default = vec![Acl::new(Perms::READ | Perms::CREATE, "world", "anyone")];
        let builder = Client::builder(&ensemble.servers()).unwrap();
        let client = builder.default_acl(default.clone()).connect().await.unwrap();
        let (at, mode) = (|name: &str| format!("{root}/{name}"), CreateMode::Persistent);
        client.create(&at("a"), "", mode).await.unwrap();
        client.create_without_stat(&at("b"), "", mode).await.unwrap();
        client.create_all(&at("c/d"), "", mode).await.unwrap();
        client.transaction().create(&at("e"), "", mode).commit().await.unwrap();
        client.create_with_acl(&at("open"), "", mode, Acl::OPEN_UNSAFE).await.unwrap();
        for name in ["a", "b", "c", "c/d", "e"] {
            assert_eq!(other.get_acl(&at(name)).await.unwrap().acl, default, "{name}");
        }
        assert_eq!(other.get_acl(&at("open")).await.unwrap().acl, Acl::OPEN_UNSAFE);
    }

    async fn an_added_identity_gives_access_to_its_nodes(ensemble: &Ensemble) {
        let (client, other, root) = two_and_a_node(ensemble, "auth").await;
        let path = format!("{root}/mine");
        let nobody = client.create_with_acl(&path, "", CreateMode::Persistent, Acl::CREATOR_ALL).await;
        assert_eq!(nobody.unwrap_err().code(), Some(ErrorCode::INVALID_ACL));
        client.add_auth("digest", "ann:secret").await.unwrap();
        client.create_with_acl(&path, "", CreateMode::Persistent, Acl::CREATOR_ALL).await.unwrap();
        let refused = other.get_data(&path).await.unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::NO_AUTH));
        other.add_auth("digest", "ann:guess").await.unwrap();
        assert!(other.get_data(&path).await.is_err());
        other.add_auth("digest", "ann:secret").await.unwrap();
        assert!(other.get_data(&path).await.is_ok());
        assert!(!format!("{other:?}").contains("secret"));
    }

    async fn an_identity_of_an_unknown_scheme_ends_the_client(ensemble: &Ensemble) {
        let client = ensemble.client().await;
        let error = client.add_auth("no-such-scheme", "").await.unwrap_err();
        let ErrorKind::AuthFailed(reason) = error.kind() else { panic!("{error}") };
        let (scheme, code) = ("no-such-scheme".to_owned(), ErrorCode::AUTH_FAILED);
        let AuthFailure::Refused { scheme: of, code: why, .. } = reason else { panic!("{error}") };
        assert_eq!((of, *why), (&scheme, code));
        assert!(client.is_closed());
        assert_eq!(client.exists("/").await.unwrap_err(), error);
    }

    async fn who_am_i_lists_the_identities_of_the_client(ensemble: &Ensemble) {
        let client = ensemble.client().await;
        let me = client.who_am_i().await.unwrap();
        let [address] = me.as_slice() else { panic!("{me:?}") };
        assert_eq!((&*address.auth_scheme, &*address.user), ("ip", "127.0.0.1"));
        client.add_auth("digest", "ann:secret").await.unwrap();
        let me = client.who_am_i().await.unwrap();
        assert!(me.iter().any(|id| (&*id.auth_scheme, &*id.user) == ("digest", "ann")), "{me:?}");
    }
}
