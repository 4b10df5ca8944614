"""What an app in Python does with the service, through the published client. Needs SVC_URL, SVC_KEY, SVC_SECRET."""

import asyncio
import os
import unittest
import uuid

from supabase import AsyncClient, Client, acreate_client, create_client
from postgrest.exceptions import APIError
from supabase_auth.errors import AuthApiError
from supabase_functions.errors import FunctionsHttpError

URL = os.environ["SVC_URL"]
KEY = os.environ["SVC_KEY"]
SECRET = os.environ["SVC_SECRET"]
PASSWORD = "correct horse battery"


def address() -> str:
    return f"{uuid.uuid4().hex}@example.com"


def signed_up() -> tuple[Client, str]:
    client = create_client(URL, KEY)
    email = address()
    answer = client.auth.sign_up({"email": email, "password": PASSWORD, "options": {"data": {"name": "Ann"}}})
    assert answer.session is not None
    return client, email


class Auth(unittest.TestCase):
    def test_sign_up_out_and_in(self) -> None:
        client, email = signed_up()
        self.assertEqual(client.auth.get_user().user.email, email)
        self.assertEqual(client.auth.get_user().user.user_metadata["name"], "Ann")
        client.auth.sign_out()
        self.assertIsNone(client.auth.get_session())
        again = client.auth.sign_in_with_password({"email": email, "password": PASSWORD})
        self.assertEqual(again.user.email, email)

    def test_wrong_password_and_taken_address(self) -> None:
        client, email = signed_up()
        with self.assertRaises(AuthApiError) as wrong:
            client.auth.sign_in_with_password({"email": email, "password": "something else"})
        self.assertEqual(wrong.exception.code, "invalid_credentials")
        with self.assertRaises(AuthApiError) as taken:
            client.auth.sign_up({"email": email, "password": PASSWORD})
        self.assertEqual(taken.exception.code, "user_already_exists")

    def test_refresh_and_update(self) -> None:
        client, _ = signed_up()
        before = client.auth.get_session().refresh_token
        self.assertNotEqual(client.auth.refresh_session().session.refresh_token, before)
        changed = client.auth.update_user({"data": {"name": "Bea"}, "password": PASSWORD + "!"})
        self.assertEqual(changed.user.user_metadata["name"], "Bea")

    def test_claims(self) -> None:
        client, email = signed_up()
        claims = client.auth.get_claims()
        self.assertEqual(claims["claims"]["email"], email)

    def test_anonymous(self) -> None:
        client = create_client(URL, KEY)
        self.assertTrue(client.auth.sign_in_anonymously().user.is_anonymous)
        self.assertEqual(client.table("lists").select("*").execute().data, [])

    def test_factor(self) -> None:
        client, _ = signed_up()
        enrolled = client.auth.mfa.enroll({"factor_type": "totp", "friendly_name": "phone"})
        self.assertTrue(enrolled.totp.uri.startswith("otpauth://"))
        self.assertEqual(client.auth.mfa.get_authenticator_assurance_level().current_level, "aal1")
        client.auth.mfa.unenroll({"factor_id": enrolled.id})
        self.assertEqual(client.auth.mfa.list_factors().all, [])

    def test_admin(self) -> None:
        admin = create_client(URL, SECRET).auth.admin
        email = address()
        made = admin.create_user({"email": email, "password": PASSWORD, "email_confirm": True}).user
        self.assertEqual(admin.get_user_by_id(made.id).user.email, email)
        self.assertIn(email, [user.email for user in admin.list_users(per_page=1000)])
        admin.update_user_by_id(made.id, {"user_metadata": {"plan": "gold"}})
        self.assertEqual(admin.get_user_by_id(made.id).user.user_metadata["plan"], "gold")
        link = admin.generate_link({"type": "magiclink", "email": email})
        client = create_client(URL, KEY)
        entered = client.auth.verify_otp({"type": "magiclink", "token_hash": link.properties.hashed_token})
        self.assertEqual(entered.user.id, made.id)
        admin.delete_user(made.id)
        with self.assertRaises(AuthApiError):
            admin.get_user_by_id(made.id)


class Data(unittest.TestCase):
    def setUp(self) -> None:
        self.client, _ = signed_up()
        self.list = self.client.table("lists").insert({"title": "of the house"}).execute().data[0]["id"]

    def add(self, *rows: dict) -> list[dict]:
        return self.client.table("todos").insert([{"list_id": self.list, **row} for row in rows]).execute().data

    def test_rows_come_and_go(self) -> None:
        [first, second] = self.add({"title": "a", "tags": ["x", "y"]}, {"title": "b", "meta": {"deep": [1, {"k": "ü"}]}})
        self.assertEqual(first["tags"], ["x", "y"])
        changed = self.client.table("todos").update({"done": True}).eq("id", first["id"]).execute().data
        self.assertEqual([row["done"] for row in changed], [True])
        kept = self.client.table("todos").upsert({**second, "title": "c"}).execute().data
        self.assertEqual(kept[0]["title"], "c")
        self.assertEqual(kept[0]["meta"], {"deep": [1, {"k": "ü"}]})
        gone = self.client.table("todos").delete().eq("id", first["id"]).execute().data
        self.assertEqual([row["id"] for row in gone], [first["id"]])

    def test_filters(self) -> None:
        self.add(*({"title": f"t{n}, (x)", "rank": n, "tags": [f"g{n % 2}"], "meta": {"n": n}} for n in range(6)))
        todos = lambda: self.client.table("todos").select("rank").order("rank")
        ranks = lambda query: [row["rank"] for row in query.execute().data]
        self.assertEqual(ranks(todos().gt("rank", 3)), [4, 5])
        self.assertEqual(ranks(todos().in_("title", ["t1, (x)", "t4, (x)"])), [1, 4])
        self.assertEqual(ranks(todos().like("title", "t2%")), [2])
        self.assertEqual(ranks(todos().ilike("title", "T3%")), [3])
        self.assertEqual(ranks(todos().contains("tags", ["g1"])), [1, 3, 5])
        self.assertEqual(ranks(todos().contains("meta", {"n": 5})), [5])
        self.assertEqual(ranks(todos().or_("rank.lt.1,rank.gt.4")), [0, 5])
        self.assertEqual(ranks(todos().not_.in_("rank", [0, 1, 2, 3])), [4, 5])
        self.assertEqual(ranks(todos().is_("due", "null").limit(1)), [0])
        self.assertEqual(ranks(todos().range(1, 2)), [1, 2])
        self.assertEqual(ranks(todos().match({"rank": 2, "done": False})), [2])
        self.assertEqual(ranks(todos().filter("meta->>n", "eq", "3")), [3])

    def test_counts_and_single_rows(self) -> None:
        self.add({"title": "one"}, {"title": "two"})
        counted = self.client.table("todos").select("id", count="exact", head=True).execute()
        self.assertEqual(counted.count, 2)
        one = self.client.table("todos").select("title").eq("title", "one").single().execute()
        self.assertEqual(one.data, {"title": "one"})
        self.assertIsNone(self.client.table("todos").select("title").eq("title", "none").maybe_single().execute())
        with self.assertRaises(APIError) as many:
            self.client.table("todos").select("title").single().execute()
        self.assertEqual(many.exception.code, "PGRST116")
        rows = self.client.table("todos").select("title").order("title").csv().execute().data
        self.assertEqual(rows, "title\none\ntwo")

    def test_embeds(self) -> None:
        self.add({"title": "a", "rank": 2}, {"title": "b", "rank": 1})
        data = self.client.table("lists").select("title, todos(title)").order("rank", foreign_table="todos").execute().data
        self.assertEqual(data, [{"title": "of the house", "todos": [{"title": "b"}, {"title": "a"}]}])
        inner = self.client.table("todos").select("title, lists!inner(title)").eq("lists.title", "nothing").execute().data
        self.assertEqual(inner, [])

    def test_others_see_nothing(self) -> None:
        self.add({"title": "secret"})
        other, _ = signed_up()
        self.assertEqual(other.table("todos").select("*").execute().data, [])
        with self.assertRaises(APIError) as refused:
            other.table("todos").insert({"list_id": self.list, "title": "in"}).execute()
        self.assertEqual(refused.exception.code, "42501")
        self.assertEqual(create_client(URL, KEY).table("lists").select("*").execute().data, [])

    def test_functions_of_the_database(self) -> None:
        self.add({"title": "a", "done": False}, {"title": "b", "done": True})
        self.assertEqual(self.client.rpc("add", {"a": 2, "b": 3}).execute().data, 5)
        self.assertEqual(self.client.rpc("add", {"a": 2, "b": 3}, get=True).execute().data, 5)
        open_ones = self.client.rpc("open_todos", {"of_list": self.list}).select("title").execute().data
        self.assertEqual(open_ones, [{"title": "a"}])
        with self.assertRaises(APIError) as raised:
            self.client.rpc("fail_with_reason").execute()
        self.assertEqual((raised.exception.message, raised.exception.hint), ("not today", "try tomorrow"))
        with self.assertRaises(APIError) as unknown:
            self.client.rpc("nothing").execute()
        self.assertEqual(unknown.exception.code, "PGRST202")

    def test_unknown_table(self) -> None:
        with self.assertRaises(APIError):
            self.client.table("nowhere").select("*").execute()


class Storage(unittest.TestCase):
    def setUp(self) -> None:
        self.client, _ = signed_up()
        self.files = self.client.storage.from_("files")
        self.folder = uuid.uuid4().hex

    def test_files_come_and_go(self) -> None:
        path = f"{self.folder}/a b.txt"
        self.files.upload(path, "hällo".encode(), {"content-type": "text/plain"})
        self.assertEqual(self.files.download(path), "hällo".encode())
        self.assertTrue(self.files.exists(path))
        self.assertEqual(self.files.info(path)["size"], 6)
        with self.assertRaises(Exception) as taken:
            self.files.upload(path, b"again")
        self.assertIn("exists", str(taken.exception))
        self.files.update(path, b"new", {"content-type": "text/plain"})
        self.assertEqual(self.files.download(path), b"new")
        self.files.copy(path, f"{self.folder}/b.txt")
        self.files.move(f"{self.folder}/b.txt", f"{self.folder}/c.txt")
        self.assertEqual([one["name"] for one in self.files.list(self.folder)], ["a b.txt", "c.txt"])
        self.assertEqual(len(self.files.remove([path, f"{self.folder}/c.txt"])), 2)
        self.assertEqual(self.files.list(self.folder), [])

    def test_signed_links(self) -> None:
        import urllib.request

        path = f"{self.folder}/s.txt"
        self.files.upload(path, b"signed")
        link = self.files.create_signed_url(path, 60)["signedURL"]
        self.assertEqual(urllib.request.urlopen(link).read(), b"signed")
        self.assertEqual(len(self.files.create_signed_urls([path], 60)), 1)
        upload = self.files.create_signed_upload_url(f"{self.folder}/u.txt")
        self.files.upload_to_signed_url(upload["path"], upload["token"], b"by link")
        self.assertEqual(self.files.download(f"{self.folder}/u.txt"), b"by link")

    def test_public_bucket(self) -> None:
        import urllib.request

        pictures = self.client.storage.from_("pictures")
        pictures.upload(f"{self.folder}.txt", b"for all", {"content-type": "text/plain"})
        link = pictures.get_public_url(f"{self.folder}.txt")
        self.assertEqual(urllib.request.urlopen(link).read(), b"for all")

    def test_strangers_are_refused(self) -> None:
        self.files.upload(f"{self.folder}/x", b"x")
        with self.assertRaises(Exception):
            create_client(URL, KEY).storage.from_("files").download(f"{self.folder}/x")

    def test_buckets(self) -> None:
        admin = create_client(URL, SECRET).storage
        self.assertEqual({bucket.id for bucket in admin.list_buckets()} >= {"files", "pictures"}, True)
        self.assertTrue(admin.get_bucket("pictures").public)


class Functions(unittest.TestCase):
    def test_call(self) -> None:
        client, email = signed_up()
        answer = client.functions.invoke("hello", {"body": {"name": "Ann"}, "responseType": "json"})
        self.assertEqual(answer, {"hello": "Ann", "user": email})

    def test_unknown(self) -> None:
        with self.assertRaises(FunctionsHttpError):
            create_client(URL, KEY).functions.invoke("nothing", {"body": {}})


class Realtime(unittest.IsolatedAsyncioTestCase):
    async def joined(self) -> tuple[AsyncClient, str]:
        client = await acreate_client(URL, KEY)
        await client.auth.sign_up({"email": address(), "password": PASSWORD})
        return client, uuid.uuid4().hex

    async def subscribe(self, channel) -> None:
        ready: asyncio.Future = asyncio.get_running_loop().create_future()

        def on_state(state, error) -> None:
            if not ready.done():
                ready.set_result((str(state), error))

        await channel.subscribe(on_state)
        state, error = await asyncio.wait_for(ready, 10)
        self.assertIn("SUBSCRIBED", state, error)

    async def test_broadcast(self) -> None:
        one, room = await self.joined()
        two, _ = await self.joined()
        heard: asyncio.Queue = asyncio.Queue()
        listening = one.channel(room).on_broadcast("said", heard.put_nowait)
        await self.subscribe(listening)
        speaking = two.channel(room)
        await self.subscribe(speaking)
        await speaking.send_broadcast("said", {"text": "hi"})
        self.assertEqual((await asyncio.wait_for(heard.get(), 10))["payload"]["text"], "hi")
        for client in (one, two):
            await client.remove_all_channels()
            await client.realtime.close()

    async def test_presence(self) -> None:
        one, room = await self.joined()
        synced: asyncio.Queue = asyncio.Queue()
        channel = one.channel(room)
        channel.on_presence_sync(lambda: synced.put_nowait(channel.presence_state()))
        await self.subscribe(channel)
        await channel.track({"name": "Ann"})
        state: dict = {}
        while not state:
            state = await asyncio.wait_for(synced.get(), 10)
        self.assertEqual([meta["name"] for metas in state.values() for meta in metas], ["Ann"])
        await one.remove_all_channels()
        await one.realtime.close()

    async def test_changed_rows(self) -> None:
        one, room = await self.joined()
        two, _ = await self.joined()
        mine = (await one.table("lists").insert({"title": "mine"}).execute()).data[0]["id"]
        theirs = (await two.table("lists").insert({"title": "theirs"}).execute()).data[0]["id"]
        heard: asyncio.Queue = asyncio.Queue()
        channel = one.channel(room).on_postgres_changes("INSERT", heard.put_nowait, "todos", "public")
        ready: asyncio.Future = asyncio.get_running_loop().create_future()
        channel.on_system(lambda message: ready.done() or ready.set_result(message))
        await self.subscribe(channel)
        await asyncio.wait_for(ready, 10)
        await two.table("todos").insert({"list_id": theirs, "title": "not for one"}).execute()
        await one.table("todos").insert({"list_id": mine, "title": "for one"}).execute()
        change = await asyncio.wait_for(heard.get(), 10)
        self.assertEqual(change["data"]["record"]["title"], "for one")
        for client in (one, two):
            await client.remove_all_channels()
            await client.realtime.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
