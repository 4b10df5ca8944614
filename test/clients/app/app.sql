create function open_todos(of_list bigint) returns setof todos language sql stable
as $$ select * from todos where list_id = of_list and not done order by id $$;
create function add(a int, b int) returns int language sql immutable as $$ select a + b $$;
create function fail_with_reason() returns void language plpgsql
as $$ begin raise exception 'not today' using errcode = 'P0001', hint = 'try tomorrow'; end $$;
