// The products, with a search.
import { useEffect, useState, type JSX } from 'react';
import { money, supabase, fieldText, type Product } from './client.ts';
import { EditProduct } from './staff.tsx';

type ProductsProps = {
  readonly isStaff: boolean;
  /** True without a signed-in user. */
  readonly isGuest: boolean;
  readonly changes: number;
  readonly onBasket: () => void;
};

export function Products({ isStaff, isGuest, changes, onBasket }: ProductsProps): JSX.Element {
  const [words, setWords] = useState('');
  const [products, setProducts] = useState<readonly Product[]>();
  const [problem, setProblem] = useState<string>();

  useEffect(() => {
    let isOld = false;
    const all = supabase.from('products').select().order('name');
    const found =
      words === '' ? all : all.textSearch('search', words, { type: 'websearch', config: 'english' });
    void found.then(({ data, error }) => {
      if (isOld) return;
      setProblem(error?.message);
      if (data) setProducts(data);
    });
    return () => {
      isOld = true;
    };
  }, [words, changes, isStaff]);

  const put = async (product: Product): Promise<void> => {
    // The first product in the basket signs a visitor in as an anonymous user.
    if (isGuest) {
      const { error } = await supabase.auth.signInAnonymously();
      if (error) return setProblem(error.message);
    }
    const { error } = await supabase
      .from('basket_items')
      .upsert({ product_id: product.id }, { onConflict: 'user_id,product_id', ignoreDuplicates: true });
    setProblem(error?.message);
    onBasket();
  };

  return (
    <>
      <header className="line">
        <h1>Shop</h1>
        <form
          role="search"
          className="line"
          onSubmit={(event) => {
            event.preventDefault();
            setWords(fieldText(event.currentTarget, 'words'));
          }}
        >
          <input name="words" type="search" aria-label="Search" placeholder="bread -rye" />
          <button type="submit">Search</button>
        </form>
      </header>
      {problem !== undefined && <p role="alert">{problem}</p>}
      {products?.length === 0 && <p className="soft">Nothing was found.</p>}
      <ul className="products">
        {products?.map((product) => (
          <li key={product.id} className="product">
            <Picture product={product} />
            <h2>{product.name}</h2>
            <p className="soft">{product.description}</p>
            <p className="line">
              <strong>{money(product.price)}</strong>
              <span className="soft">{product.stock > 0 ? `${product.stock} left` : 'sold out'}</span>
            </p>
            <button
              type="button"
              className="primary"
              disabled={product.stock === 0}
              aria-label={`Put ${product.name} into the basket`}
              onClick={() => void put(product)}
            >
              Into the basket
            </button>
            {isStaff && <EditProduct product={product} />}
          </li>
        ))}
      </ul>
    </>
  );
}

function Picture({ product: { picture, name } }: { readonly product: Product }): JSX.Element {
  if (picture === null) return <div className="picture" aria-hidden="true" />;
  const { data } = supabase.storage.from('pictures').getPublicUrl(picture);
  return <img className="picture" src={data.publicUrl} alt={name} />;
}
